"""AdamW on float32 master weights, with clipping and a schedule of the learning rate."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from trainer.config import OptimConfig


def learning_rate(config: OptimConfig, step: int, steps: int) -> float:
    """The rate of optimizer step `step`, counted from 1, of `steps`."""
    rise = max(1, round(config.warmup * steps))
    if step <= rise and config.warmup > 0:
        return config.lr * step / rise
    if config.schedule == "constant":
        return config.lr
    if config.schedule == "wsd":
        fall = max(1, round(0.2 * steps))
        left = min(1.0, (steps - step) / fall)
        return config.final_lr + (config.lr - config.final_lr) * left
    done = (step - rise) / max(1, steps - rise)
    return config.final_lr + (config.lr - config.final_lr) * 0.5 * (1 + math.cos(math.pi * done))


class MasterAdamW:
    """AdamW (Loshchilov & Hutter, 2017) over float32 copies of the parameters.

    A parameter that is float32 already is its own master. Gradients of a step may come in several backward passes.
    """

    def __init__(self, config: OptimConfig, named: Iterable[tuple[str, nn.Parameter]], steps: int) -> None:
        """Takes the trainable parameters by name; `steps` is the length of the schedule."""
        self._config, self._steps = config, steps
        self._params = dict(named)
        self._masters = {
            name: param if param.dtype == torch.float32 else nn.Parameter(param.detach().float())
            for name, param in self._params.items()
        }
        matrices = [master for master in self._masters.values() if master.dim() > 1]
        vectors = [master for master in self._masters.values() if master.dim() <= 1]
        self._adam = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
            lr=config.lr,
            betas=(config.betas[0], config.betas[1]),
            fused=True,
        )

    def step(self, number: int) -> tuple[Tensor, float]:
        """Updates the parameters for optimizer step `number`, counted from 1, and drops the gradients.

        Returns the gradient's norm before clipping, on its device, and the learning rate.
        """
        for name, param in self._params.items():
            if self._masters[name] is not param:
                self._masters[name].grad = None if param.grad is None else param.grad.float()
        masters = list(self._masters.values())
        norm = nn.utils.clip_grad_norm_(masters, self._config.clip or math.inf)
        rate = learning_rate(self._config, number, self._steps)
        for group in self._adam.param_groups:
            group["lr"] = rate
        self._adam.step()
        self._adam.zero_grad()
        with torch.no_grad():
            for name, param in self._params.items():
                if self._masters[name] is not param:
                    param.copy_(self._masters[name])
                    param.grad = None
        return norm, rate

    def skip(self) -> None:
        """Drops the gradients without an update."""
        for param in self._params.values():
            param.grad = None

    def state(self) -> dict[str, Tensor]:
        """Everything that a resume needs, flat: `master.NAME`, `exp_avg.NAME`, `exp_avg_sq.NAME`, `step.NAME`."""
        tensors = {f"master.{name}": master.detach() for name, master in self._masters.items()}
        for name, master in self._masters.items():
            for key, value in self._adam.state.get(master, {}).items():
                tensors[f"{key}.{name}"] = value
        return tensors

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        """Takes over what `state` returned; parameters get their masters' values."""
        for name, master in self._masters.items():
            master.copy_(tensors[f"master.{name}"])
            if self._params[name] is not master:
                self._params[name].copy_(master)
            found = {
                key: tensors[f"{key}.{name}"].clone()
                for key in ("step", "exp_avg", "exp_avg_sq")
                if f"{key}.{name}" in tensors
            }
            if found:
                self._adam.state[master] = {key: value.to(master.device) for key, value in found.items()}
