"""Activation functions of neural networks, by JAX's and PyTorch's names."""

from __future__ import annotations

from backhaul_proto.catalog.pointwise import REAL, REAL_NUMBERS, as_is, unary

unary(
    "sigmoid",
    "The logistic function 1 / (1 + exp(-x)) of each element, without overflow.",
    aliases=("expit",),
    domain="unit",
)
unary(
    "log_sigmoid",
    "log(sigmoid(x)) of each element, accurate where the sigmoid is near 0 or 1.",
    kinds=REAL,
    aliases=("log_expit",),
)
unary("softplus", "log(1 + exp(x)) of each element, without overflow.", kinds=REAL)
unary(
    "relu",
    "x where it is positive, else 0. The derivative at 0 is 0.",
    infer=as_is,
    kinds=REAL_NUMBERS,
    domain="nonzero",
)
unary(
    "gelu",
    "x Phi(x) of each element, Phi being the normal distribution function, exactly (not by tanh).\n\n"
    "Hendrycks, Gimpel (2016), Gaussian error linear units, arXiv:1606.08415.",
    kinds=REAL,
)
unary("silu", "x sigmoid(x) of each element.", kinds=REAL, aliases=("swish",))
