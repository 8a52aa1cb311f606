"""Sight of a tape: what is on it, what a loss reaches, where NaN came from, and what took long."""

from backhaul.sight.blame import Blame
from backhaul.sight.explain import Explanation, Unreached
from backhaul.sight.graph import Step
from backhaul.sight.profile import Profile, ProfileRow
from backhaul.sight.show import Picture

__all__ = ["Blame", "Explanation", "Picture", "Profile", "ProfileRow", "Step", "Unreached"]
