"""What both sides of backhaul must agree on: messages, the op catalog, errors, and how arrays travel."""
