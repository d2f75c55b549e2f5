#pragma once

// Elastic training of any LibTorch model. The calling program is a rank of a Ringmaster job (a
// TrainingJob with spec.elasticity.mode: InPlace). Ranks may die, leave and join at any time; the
// others continue in the same processes from the same step, and no step is lost or repeated.
//
//   auto trainer = ringmaster::Elastic::Start(model->parameters(),
//                                             {.global_batch = 256, .steps = 1000});
//   while (const auto share = trainer->Begin()) {
//     at::Tensor loss = SumOfLosses(model, SamplesOf(trainer->step(), share->begin, share->end));
//     if (!trainer->BackwardAndReduce(loss)) continue;  // the step did not happen
//     optimizer.step();
//     trainer->Applied();
//   }
//   return trainer->Report();
//
// All ranks run the same program with the same global batch, whatever their number. The samples of
// a step must depend only on its number: a step that did not happen is repeated by other ranks with
// other shares. All ranks start with the same parameters if they initialise them with the same
// seed. A rank that joins later receives the parameters and Options::state from the others.
//
// The job supplies the rest: the ranks, the transport of reductions, checkpoints (spec.checkpoint),
// snapshots and progress reports. A program that was not started by an agent trains alone.
//
// Errors end training: Begin() returns no further step, error() returns the reason, and Report()
// returns the exit code for main(). No function throws.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace ringmaster {

// One rank. Made once per process, by main(). Thread-safety: one thread.
class [[gnu::visibility("default")]] Elastic {
 public:
  struct Options {
    // Samples of a step, over all ranks; at least as many as the ranks that the job may grow to.
    int64_t global_batch = 1;
    // For the whole run.
    int64_t steps = 1;
    // State that the optimizer changes in addition to the parameters, such as momentum. A rank that
    // joins receives it, and checkpoints contain it. Like the parameters, it must depend only on
    // the reduced gradients; all ranks have the same bits. Float32, contiguous, on the parameters'
    // device.
    std::vector<at::Tensor> state{};
    // Other settings that affect training, one "name=value" per line: learning rate, seed, data.
    // They must be equal on all ranks. The job reports differences to a checkpoint that it loads.
    std::string settings{};
    // For connecting with the ranks of a world, and for the reductions of a step: ranks that take
    // longer count as lost. Unset: spec.faultTolerance.connectTimeoutSeconds of the job, which is
    // 30 by default.
    std::optional<std::chrono::milliseconds> timeout{};
  };

  // Samples [begin, end) of a step's global batch.
  struct Share {
    int64_t begin = 0;
    int64_t end = 0;

    int64_t size() const { return end - begin; }
    // The first `count` of them, which are its no longer. REQUIRES: count <= size().
    Share Take(int64_t count) {
      begin += count;
      return {begin - count, begin};
    }
  };

  // Blocks, without a limit, until this rank is in a world whose ranks have the same state. Never
  // null: after an error Begin() gives no step. `parameters` are float32, require gradients and are
  // on one device: the CPU, or a CUDA device where this library is built with CUDA. Their storage
  // moves, and they have gradients from here on: until the object is gone their data and gradients
  // may be written, but not replaced (as Module::to() and zero_grad() do).
  static std::unique_ptr<Elastic> Start(std::vector<at::Tensor> parameters, Options options);
  // Leaves the job. Other ranks continue without this one, unless all steps are trained.
  ~Elastic();
  Elastic(const Elastic&) = delete;
  Elastic& operator=(const Elastic&) = delete;

  // Begins step() with gradients that are zero, and says which samples are this rank's. Nothing:
  // all steps are trained and all ranks released, or error() says why not. In a world that changes
  // it blocks, without a limit, for the next one.
  std::optional<Share> Begin();

  // The most samples that a rank has in a step while all workers of the job are there. Where fewer
  // are, its share is larger; a program that computes no more than this at once needs no more
  // memory for it:
  //
  //   while (share->size() > trainer->micro_batch()) {
  //     trainer->Backward(SumOfLosses(model, SamplesOf(trainer->step(),
  //                                                    share->Take(trainer->micro_batch()))));
  //   }
  //   if (!trainer->BackwardAndReduce(SumOfLosses(…, *share))) continue;
  int64_t micro_batch() const;

  // After Begin(), before BackwardAndReduce(), any number of times: runs backward from the sum of
  // the losses of some of this rank's samples, and adds up gradients and losses.
  void Backward(const at::Tensor& loss_sum);

  // After Begin(), once: runs backward from the sum of the losses of this rank's samples, without
  // those that Backward() was given (one element, any device) and reduces the gradients of all
  // ranks meanwhile. True: the parameters' gradients are means over the global batch; the
  // optimizer's step and Applied() follow. False: the step did not happen, and the parameters are
  // what they were or another rank's newer ones; call Begin() again. A loss or gradient that is not
  // a finite number is an error.
  bool BackwardAndReduce(const at::Tensor& loss_sum);

  // After the optimizer's step. Leaves the world here when the job asks its ranks to, and blocks
  // for the next one.
  void Applied();

  // The number of applied steps, which is also the number of the next step.
  int64_t step() const;
  // For the present world: 0 <= rank() < world_size(). Both may change wherever a call blocks.
  int rank() const;
  int world_size() const;
  // Mean over the global batch, of the newest step that was reduced.
  double loss() const;

  // Why training ended before its last step; empty otherwise. "while doing X: reason".
  const std::string& error() const;
  // Prints error(), where there is one, and returns the process's exit code: by it the launcher
  // tells a rank that failed from one that lost a peer, and a mistake of the user's from a fault.
  int Report() const;

 private:
  class Rank;
  explicit Elastic(std::unique_ptr<Rank> rank);

  std::unique_ptr<Rank> rank_;
};

}  // namespace ringmaster
