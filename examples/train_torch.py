"""A training loop of PyTorch with a layer of the server in its module.

    pip install 'backhaul[torch]'
    python examples/train_torch.py                # a server in this process
    BACKHAUL_TARGET=host:50051 python examples/train_torch.py

The layer in the middle solves a linear system for each row, on the server, and is trained through: its
gradient comes back as that of any other layer, in two round trips a step.
"""

from __future__ import annotations

import torch

import backhaul as bh

SIZE = 4


def relax(forces: bh.TrackedTensor, springs: bh.TrackedTensor) -> bh.TrackedTensor:
    """Displacements u of coupled springs, (springs·springsᵀ + 1) u = force, for each row of forces."""
    stiffness = springs @ springs.T + bh.diag(bh.sum(springs * 0.0, axis=0) + 1.0)
    return bh.linalg.solve(stiffness, forces.T).T


class Model(torch.nn.Module):
    """A linear layer, the server's, and another linear one."""

    def __init__(self) -> None:
        super().__init__()
        self.forces = torch.nn.Linear(3, SIZE)
        self.springs = torch.nn.Parameter(0.3 * torch.randn(SIZE, SIZE))
        self.read = torch.nn.Linear(SIZE, 1)
        self.relax = bh.adapters.torch.wrap(relax)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.read(torch.tanh(self.relax(self.forces(x), self.springs)))[:, 0]


def main() -> None:
    torch.manual_seed(0)
    data = torch.randn(256, 3)
    wanted = torch.sin(data.sum(1))
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for step in range(201):
        optimizer.zero_grad()
        loss = torch.mean((model(data) - wanted) ** 2)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step:3d}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
