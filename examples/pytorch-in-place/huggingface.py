"""Trains a small GPT-2 in mode InPlace with Hugging Face's Trainer, on the bytes of a text.

python huggingface.py --text=shakespeare.txt --steps=2000 trains without a job. The default text is this file.
Needs transformers and accelerate.
"""

import argparse
from pathlib import Path

from ringmaster.integrations.transformers import Trainer
import torch
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments, set_seed


class Bytes(torch.utils.data.Dataset):
    """All pieces of a text that have `length` bytes."""

    def __init__(self, text, length):
        self.text = torch.tensor(list(text))
        self.length = length

    def __len__(self):
        return len(self.text) - self.length + 1

    def __getitem__(self, start):
        piece = self.text[start:start + self.length]
        return {"input_ids": piece, "labels": piece}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", type=Path, default=Path(__file__))
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--output", default="/tmp/gpt2", help="where rank 0 saves the model")
    options = parser.parse_args()

    set_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=64, n_embd=64, n_layer=2, n_head=4, bos_token_id=0,
                                       eos_token_id=0))
    arguments = TrainingArguments(
        output_dir=options.output, max_steps=options.steps, per_device_train_batch_size=8, learning_rate=3e-3,
        warmup_steps=20, logging_steps=10, save_strategy="no", report_to=[])
    trainer = Trainer(model, arguments, train_dataset=Bytes(options.text.read_bytes(), length=64), global_batch=32)
    trainer.train()
    if trainer.is_world_process_zero():
        trainer.save_model()
        print(f"done after step {trainer.state.global_step}", flush=True)


if __name__ == "__main__":
    main()
