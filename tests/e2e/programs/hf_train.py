"""A person's own training script around transformers' Trainer; it has never heard of Vigil.

    python hf_train.py train.yaml            the arguments in a YAML file
    python hf_train.py --output_dir out …    the arguments on the command line

Data is made here, the model is tiny. `hold_bytes` (`--hold_bytes`) is what one sample costs beside the model: the
batch alone decides whether a step fits into the memory that is allowed.
"""

import resource
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments


@dataclass
class ScriptArguments:
    samples: int = field(default=64)
    length: int = field(default=16)
    hold_bytes: int = field(default=0)
    late: int = field(default=0, metadata={"help": "the first so many samples cost nothing"})
    pause_s: float = field(default=0.0, metadata={"help": "what a larger model would take for a step"})
    headroom_bytes: int = field(default=0, metadata={"help": "RLIMIT_AS so far above what is mapped at the start"})


class Made(Dataset):
    def __init__(self, arguments: ScriptArguments) -> None:
        generator = torch.Generator().manual_seed(0)
        self.rows = torch.randint(0, 64, (arguments.samples, arguments.length), generator=generator)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[index], "labels": self.rows[index], "number": torch.tensor(index)}


class Costly(GPT2LMHeadModel):
    """Longer samples come later, as in many data sets: their activations are what does not fit."""

    costs: ScriptArguments

    def forward(
        self,
        input_ids: torch.Tensor,
        labels: torch.Tensor | None = None,
        number: torch.Tensor | None = None,
        **more: object,
    ) -> object:
        costly = 0 if number is None else int((number >= self.costs.late).sum())
        held = torch.zeros(costly * self.costs.hold_bytes, dtype=torch.uint8)
        answer = super().forward(input_ids=input_ids, labels=labels, **more)
        del held
        time.sleep(self.costs.pause_s)
        return answer


class InOrder(Trainer):
    """Samples in their order, so that the costly ones come last."""

    def _get_train_sampler(self, *_: object) -> torch.utils.data.Sampler:
        return torch.utils.data.SequentialSampler(self.train_dataset)


def main() -> None:
    torch.set_num_threads(1)
    parser = HfArgumentParser((ScriptArguments, TrainingArguments))
    if len(sys.argv) == 2 and sys.argv[1].endswith((".yaml", ".yml")):
        script, training = parser.parse_yaml_file(sys.argv[1])
    elif len(sys.argv) == 2 and sys.argv[1].endswith(".json"):
        script, training = parser.parse_json_file(sys.argv[1])
    else:
        script, training = parser.parse_args_into_dataclasses()
    config = GPT2Config(
        vocab_size=64, n_positions=32, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0, use_cache=False
    )
    model = Costly(config)
    model.costs = script
    trainer = InOrder(model=model, args=training, train_dataset=Made(script))
    if script.headroom_bytes:
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + script.headroom_bytes,) * 2)
    trainer.train(resume_from_checkpoint=training.resume_from_checkpoint)
    trainer.save_model()
    sys.stdout.write("training is complete\n")


if __name__ == "__main__":
    main()
