"""A person's own data-parallel script for torchrun, with argparse flags; it has never heard of Vigil.

Each rank holds what its batch costs; on the last rank samples are longer from `--late` on, so that one rank alone
runs out of the memory that is allowed.
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path

import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--late", type=int, default=10**9)
    parser.add_argument("--sample-bytes", type=int, default=0)
    parser.add_argument("--headroom-bytes", type=int, default=0)
    parser.add_argument("--delay", type=float, default=0.05)
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--resume", type=Path)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    first = 1
    if arguments.resume:
        saved = torch.load(arguments.resume / "model.pt", weights_only=True)
        model.load_state_dict(saved)
        first = json.loads((arguments.resume / "state.json").read_text())["step"] + 1
    if rank == 0:
        say(f"global batch {arguments.batch_size * arguments.accum * world}, on {os.environ.get('SITE', 'no site')}")
    if arguments.headroom_bytes and rank == world - 1:
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + arguments.headroom_bytes,) * 2)

    for step in range(first, arguments.steps + 1):
        generator = torch.Generator().manual_seed(step * world + rank)
        optimizer.zero_grad()
        total = 0.0
        for _ in range(arguments.accum):
            late = step >= arguments.late and rank == world - 1
            held = torch.zeros(arguments.batch_size * arguments.sample_bytes * late, dtype=torch.uint8)
            inputs = torch.randn(arguments.batch_size, 16, generator=generator)
            loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean() / arguments.accum
            loss.backward()
            total += float(loss)
            del held
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world
        optimizer.step()
        time.sleep(arguments.delay)
        if rank == 0:
            say(f"step {step}/{arguments.steps} loss {total:.4f}")
            if step % arguments.every == 0:
                save(model, arguments.out / f"step_{step}", step)
    dist.destroy_process_group()
    if rank == 0:
        say("training is complete")


def save(model: torch.nn.Module, folder: Path, step: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), folder / "model.pt")
    (folder / "state.json").write_text(json.dumps({"step": step}))


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


if __name__ == "__main__":
    main()
