#pragma once

// Elastic training of any LibTorch model. The calling program is a rank of a Ringmaster job (a
// TrainingJob with spec.elasticity.mode: InPlace). Ranks may die, leave and join at any time; the
// others continue in the same processes from the same step, and no step is lost or repeated.
//
//   auto trainer = ringmaster::Elastic::Start(model->parameters(),
//                                             {.global_batch = 256, .steps = 1000});
//   while (const auto share = trainer->Begin()) {
//     at::Tensor loss = SumOfLosses(model, SamplesOf(trainer->step(), share->begin, share->end));
//     if (!trainer->BackwardAndReduce(loss)) continue;  // the step was discarded
//     optimizer.step();
//     trainer->Applied();
//   }
//   return trainer->Report();
//
// All ranks run the same program with the same global batch, for any number of ranks. The samples
// of a step must depend only on the step's number: if a step is discarded, other ranks may repeat
// it with other shares. All ranks start with the same parameters if they initialise them with the
// same seed. A rank that joins later receives the parameters and Options::state from the others.
//
// The job provides the ranks, the transport for reductions, checkpoints (spec.checkpoint),
// snapshots and progress reports. A program that was not started by an agent trains with one rank.
//
// Errors end training: Begin() returns no further step, error() returns the reason, and Report()
// returns the exit code for main(). A call in another order than above is an error. No function
// throws.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace ringmaster {

// One rank. main() creates it once per process. Thread-safety: one thread.
class [[gnu::visibility("default")]] Elastic {
 public:
  struct Options {
    // Number of samples of a step, over all ranks; at least the job's maximum number of ranks.
    int64_t global_batch = 1;
    // Number of steps of the whole run.
    int64_t steps = 1;
    // State that the optimizer changes in addition to the parameters, such as momentum. Ranks that
    // join receive it, and checkpoints contain it. Like the parameters, it must depend only on the
    // reduced gradients; all ranks must have the same bits. Float32, without gaps, on the
    // parameters' device. Other state is not sent, such as the integers in which Adam counts steps,
    // or the learning rate of a schedule: set it from step() before every optimizer.step(), because
    // step() is right on a rank that joins and after a checkpoint is loaded.
    std::vector<at::Tensor> state{};
    // Tensors that the forward pass changes, such as running_mean and running_var of BatchNorm.
    // Applied() replaces them on all ranks by their mean, weighted by the ranks' samples; Begin()
    // undoes the changes of a discarded step. Ranks that join receive them, and checkpoints contain
    // them. Float32, without gaps, on the parameters' device, without gradients. Their shapes,
    // types and devices must not change.
    std::vector<at::Tensor> buffers{};
    // Other settings that affect training, one "name=value" per line: learning rate, seed, data.
    // They must be equal on all ranks. The job reports differences from a loaded checkpoint.
    std::string settings{};
    // Time limit for connecting to the ranks of a world, and for the reductions of a step: ranks
    // that take longer count as lost. Unset: spec.faultTolerance.connectTimeoutSeconds of the job,
    // which is 30 by default. At least 1 ms.
    std::optional<std::chrono::milliseconds> timeout{};
  };

  // Samples [begin, end) of a step's global batch.
  struct Share {
    int64_t begin = 0;
    int64_t end = 0;

    int64_t size() const { return end - begin; }
    // Removes the first `count` samples and returns them. REQUIRES: count <= size().
    Share Take(int64_t count) {
      begin += count;
      return {begin - count, begin};
    }
  };

  // Blocks, without a time limit, until this rank is in a world whose ranks have the same state.
  // Never returns null; after an error, Begin() returns no step. `parameters` must be float32,
  // require gradients and be on one device: the CPU or, if this library is built with CUDA, a CUDA
  // device. Pass a parameter that modules share only once; Module::parameters() repeats it. Start()
  // moves their storage and allocates their gradients. While the object exists, write their data
  // but do not replace it, as Module::to() and torch::load() do. zero_grad() is allowed but not
  // needed.
  static std::unique_ptr<Elastic> Start(std::vector<at::Tensor> parameters, Options options);
  // Leaves the job. The other ranks continue without this rank, unless all steps are trained. Takes
  // at most about 2 s: if the checkpoint volume hangs, a thread waits for it until the process
  // ends.
  ~Elastic();
  Elastic(const Elastic&) = delete;
  Elastic& operator=(const Elastic&) = delete;

  // Begins step() with zero gradients, and returns this rank's samples. Returns nothing if all
  // steps are trained and all ranks are released, or after an error (see error()). If the world
  // changes, the call blocks, without a time limit, until this rank is in the next world.
  std::optional<Share> Begin();

  // The maximum number of samples of a rank in a step while all workers of the job are present.
  // With fewer workers, a rank's share is larger. A program that computes at most this number of
  // samples at once then needs no more memory:
  //
  //   while (share->size() > trainer->micro_batch()) {
  //     trainer->Backward(SumOfLosses(model, SamplesOf(trainer->step(),
  //                                                    share->Take(trainer->micro_batch()))));
  //   }
  //   if (!trainer->BackwardAndReduce(SumOfLosses(…, *share))) continue;
  int64_t micro_batch() const;

  // Call it any number of times between Begin() and BackwardAndReduce(). Runs backward from the sum
  // of the losses of some of this rank's samples, and accumulates gradients and losses.
  void Backward(const at::Tensor& loss_sum);

  // Call it once after Begin(). Runs backward from the sum of the losses (one element, any device)
  // of this rank's samples that were not passed to Backward(), and meanwhile reduces the gradients
  // of all ranks. Between Begin() and this call, run no other backward pass from the parameters: it
  // is an error. True: the parameters' gradients are means over the global batch; continue with
  // the optimizer's step and Applied(). False: the step was discarded, and the parameters are
  // unchanged or were received from another rank; call Begin() again. It is an error if a loss or
  // gradient is not finite.
  [[nodiscard]] bool BackwardAndReduce(const at::Tensor& loss_sum);

  // Call it after the optimizer's step. If the job has asked its ranks to leave the world, the rank
  // leaves it, and the call blocks until the rank is in the next world.
  void Applied();

  // The number of applied steps, which is also the number of the next step.
  int64_t step() const;
  // In the current world, 0 <= rank() < world_size(). Both may change in any call that blocks.
  int rank() const;
  int world_size() const;
  // Mean loss over the global batch of the last reduced step.
  double loss() const;

  // Why training ended before its last step; empty otherwise. Format: "while doing X: reason".
  const std::string& error() const;
  // Prints error(), if any, and returns the exit code of the process. The code tells the launcher
  // whether the rank failed or lost a peer, and whether the error is a user error.
  int Report() const;

 private:
  class Rank;
  explicit Elastic(std::unique_ptr<Rank> rank);

  std::unique_ptr<Rank> rank_;
};

}  // namespace ringmaster
