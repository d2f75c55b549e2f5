"""Measures the figure accuracy: trains with ringmaster-train and with pytorch_training.py on the same data, with several seeds each,
and compares the results. The last line is one JSON object.

    compare.py RINGMASTER_TRAIN FIGURE_TRAINING_DATA [OPTION OF RINGMASTER_TRAIN...]

The sides agree in a measure if their means differ by at most LIMIT standard errors. The standard error of the difference is
√((s² + s'²) / seeds), where s and s' are the sides' standard deviations over the seeds.
"""

import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SEEDS = int(os.environ.get("RUNS") or 5)
STEPS = os.environ.get("STEPS")  # steps of every training, on both sides; for a quick run
LAST = 50  # number of last steps whose mean loss is the final loss
LIMIT = 4

# The training of deploy/samples/digits.yaml: 25 epochs.
MNIST = ["--workload=mnist", "--global-batch=64", "--steps=553", "--learning-rate=0.03", "--momentum=0.9",
         "--weight-decay=0", "--max-shift=2"]  # fmt: skip
PARTIAL_FC = ["--workload=partial-fc", "--data=synthetic", "--classes=10000", "--generated-samples=20000", "--image-side=28",
              "--backbone=small", "--embedding=64", "--global-batch=128", "--steps=300", "--learning-rate=0.005",
              "--momentum=0.9", "--weight-decay=0.0005", "--scale=16"]  # fmt: skip
WHOLE = ["--sample-rate=1"]
SAMPLED = ["--sample-rate=0.1", "--dense-update"]
if STEPS:
    MNIST.append(f"--steps={STEPS}")
    PARTIAL_FC.append(f"--steps={STEPS}")


def check_ended(process, command):
    """Runs the command and returns its standard output."""
    out, err = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} ended with exit code {process.returncode}:\n{err[-3000:]}")
    return out


def run_together(commands):
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for command in commands
    ]
    return [check_ended(process, command) for process, command in zip(started, commands)]


def run(*command):
    return run_together([command])[0]


def pytorch(data, flags, *more):
    return json.loads(run(sys.executable, "-B", HERE / "pytorch_training.py", data, *flags, *more))


class Ringmaster:
    def __init__(self, program, options):
        self.program = program
        self.options = options

    def train(self, data, flags, ranks=1):
        with tempfile.TemporaryDirectory() as folder:
            (store := pathlib.Path(folder, "store")).mkdir()
            world = [f"--world-size={ranks}", f"--store={store}", "--transport=gloo"] if ranks > 1 else []
            command = [
                self.program, *flags, "--device=cpu", "--threads=1", "--log-every=1", f"--step-log={folder}/steps",
                *([f"--checkpoint-dir={folder}/state", "--checkpoint-every=1000000"] if PARTIAL_FC[0] in flags else []),
                *world, *self.options,
            ]  # fmt: skip
            run_together([[*command, *([f"--rank={rank}"] if world else [])] for rank in range(ranks)])
            lines = [json.loads(line) for line in pathlib.Path(folder, "steps").read_text().splitlines()]
            result = {"losses": [line["loss"] for line in lines if "loss" in line], **lines[-1]["summary"]}
            if PARTIAL_FC[0] not in flags:
                return result
            evaluated = pytorch(data, flags, f"--checkpoint={folder}/state")
            if abs(evaluated["accuracy"] - result["accuracy"]) > 0.001:
                raise SystemExit(f"PyTorch measures another accuracy of the same state: {evaluated}, {result['accuracy']}")
            return {**result, "identified": evaluated["identified"]}


def measures(result):
    """Returns the measures of one seed, without partial-fc's accuracy on triplets, which is nearly 1 even if no image is identified."""
    learnt = "identified" if "identified" in result else "accuracy"
    return {"loss": statistics.mean(result["losses"][-LAST:]), learnt: 100 * result[learnt]}


def compare(ours, theirs):
    """Returns for each measure both sides' means, standard deviations and values, and the difference of the means in standard errors."""
    compared = {}
    for name in ours[0]:
        sides = [[run[name] for run in side] for side in (ours, theirs)]
        means = [statistics.mean(side) for side in sides]
        deviations = [statistics.stdev(side) for side in sides]
        difference = abs(means[0] - means[1])
        error = (sum(deviation**2 for deviation in deviations) / len(ours)) ** 0.5
        compared[name] = {
            "ours": means[0], "pytorch": means[1], "ours_deviation": deviations[0], "pytorch_deviation": deviations[1],
            "apart": difference / max(error, 1e-9), "ours_seeds": sides[0], "pytorch_seeds": sides[1],
        }  # fmt: skip
    return compared


def main():
    train, training_data, *options = sys.argv[1:]
    ringmaster = Ringmaster(train, options)
    pool = concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    sides = {}  # by name: the measures of each seed

    def train_seed(flags, ways):
        """Trains with one seed: calls each function in `ways` with the data folder and the flags, and adds its measures to
        `sides`."""
        with tempfile.TemporaryDirectory() as data:
            run(training_data, data, *flags)
            started = {name: pool.submit(way, data, flags) for name, way in ways.items()}
            for name, future in started.items():
                sides.setdefault(name, []).append(measures(future.result()))
                print(flags[-1], name, sides[name][-1], file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as digits:
        run(sys.executable, HERE.parent.parent / "tests/data/digits_to_idx.py", digits)
        for seed in range(1, SEEDS + 1):
            train_seed([*MNIST, f"--data={digits}", f"--seed={seed}"], {
                "mnist": ringmaster.train,
                "mnist, two ranks": lambda data, flags: ringmaster.train(data, flags, ranks=2),
                "mnist, PyTorch": pytorch,
            })  # fmt: skip
    for seed in range(1, SEEDS + 1):
        train_seed([*PARTIAL_FC, f"--seed={seed}"], {
            "partial_fc": lambda data, flags: ringmaster.train(data, [*flags, *WHOLE]),
            "partial_fc, PyTorch": lambda data, flags: pytorch(data, [*flags, *WHOLE]),
            "sampled": lambda data, flags: ringmaster.train(data, [*flags, *SAMPLED]),
            "sampled, PyTorch": lambda data, flags: pytorch(data, [*flags, *SAMPLED]),
        })  # fmt: skip
    compared = {
        "mnist": compare(sides["mnist"], sides["mnist, PyTorch"]),
        "mnist_two_ranks": compare(sides["mnist, two ranks"], sides["mnist, PyTorch"]),
        "partial_fc": compare(sides["partial_fc"], sides["partial_fc, PyTorch"]),
        "partial_fc_sampled": compare(sides["sampled"], sides["sampled, PyTorch"]),
    }
    furthest = max(measure["apart"] for one in compared.values() for measure in one.values())
    print(json.dumps({
        "figure": "accuracy", "value": furthest,
        "unit": "standard errors that the means of ours and of PyTorch's are apart, the most of all measures",
        "reference": None, "goal": f"<= {LIMIT}", "holds": furthest <= LIMIT, "seeds": SEEDS, **compared,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
