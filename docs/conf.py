"""How the documentation becomes a site: `make site`. Its pages are read as files too: plain Markdown."""

from __future__ import annotations

from typing import Final

from backhaul_proto._version import __version__

project: Final = "backhaul"
author: Final = "The backhaul authors"
copyright: Final = "The backhaul authors, Apache-2.0"
version = release = __version__

extensions: Final = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns: Final = ["_build"]
# A block in a language that is not known here (textproto) is shown as it is.
suppress_warnings: Final = ["misc.highlighting_failure"]
nitpicky: Final = False

# Pages
myst_heading_anchors: Final = 4
myst_enable_extensions: Final = ["colon_fence"]

# Notebooks are run each time; a cell that raises ends the build.
nb_execution_mode: Final = "force"
nb_execution_raise_on_error: Final = True
nb_execution_timeout: Final = 120

# Reference
autodoc_member_order: Final = "bysource"
autodoc_typehints: Final = "signature"
autodoc_class_signature: Final = "mixed"
python_use_unqualified_type_names: Final = True

# Looks
html_theme: Final = "furo"
html_title: Final = f"backhaul {__version__}"
html_theme_options: Final = {
    "light_css_variables": {"color-brand-primary": "#0b5c7a", "color-brand-content": "#0b5c7a"},
    "dark_css_variables": {"color-brand-primary": "#7cc4dd", "color-brand-content": "#7cc4dd"},
}
