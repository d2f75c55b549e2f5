#include "worker/trainer/train/train_loop.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <c10/util/Exception.h>

#include "common/base/log.h"
#include "worker/trainer/train/out_of_memory.h"

namespace ringmaster::trainer {
namespace {

double Millis(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// Returns the share of the collectives' time that overlapped with computation.
double Overlap(std::chrono::nanoseconds waited, std::chrono::nanoseconds networked) {
  if (networked.count() <= 0) return 0;
  return std::clamp(1 - Millis(waited) / Millis(networked), 0.0, 1.0);
}

// Returns which values are not finite. `model` has one line per parameter, starting with its name.
std::string WhatIsNotFinite(const NotFinite& found, bool loss_is_finite, std::string_view model) {
  if (found.ranks == 0) {
    return loss_is_finite ? "the sum of the ranks' gradients is NaN or infinite"
                          : "the loss is NaN or infinite";
  }
  for (int line = 0; line < found.parameter; ++line) {
    model.remove_prefix(std::min(model.size(), model.find('\n') + 1));
  }
  const std::string name(model.substr(0, model.find_first_of(" \n")));
  return "the gradient of " + name + " on rank " + std::to_string(found.rank) +
         (found.ranks > 1 ? " and " + std::to_string(found.ranks - 1) + " more" : "") +
         " is NaN or infinite";
}

class Trainer {
 public:
  Trainer(Workload& workload, Session& session, Sgd& optimizer, StepLog& log, const Clock& clock,
          const TrainPlan& plan)
      : workload_(workload),
        session_(session),
        optimizer_(optimizer),
        log_(log),
        clock_(clock),
        plan_(plan),
        pace_(plan.log_every) {}

  Result<RunSummary> Run() {
    start_ = clock_.Now();
    last_update_ = start_;
    if (session_.world().rank == 0 && session_.applied_steps() == 0) log_.Restart();
    LogResumed();
    // If a world breaks after the last step, the ranks of the next world may have to repeat that
    // step and evaluate again.
    for (bool released = false; !released;) {
      while (session_.applied_steps() < plan_.steps) {
        if (Result<void> stepped = Step(); !stepped.ok()) return stepped.error();
      }
      const Outcome<> evaluated = Evaluate();
      if (evaluated.failed()) {
        return evaluated.error().WithContext("measuring the held-out accuracy");
      }
      if (evaluated.world_changed()) continue;
      Summarise();
      const Outcome<> finished = session_.Finish(progress_);
      if (finished.failed()) return finished.error();
      released = finished.happened();
    }
    if (session_.world().rank == 0) log_.Write(ToJsonLine(summary_));
    return summary_;
  }

 private:
  Result<void> Step() {
    const int64_t step = session_.applied_steps();
    const auto begin = clock_.Now();
    if (plan_.timeline != nullptr) plan_.timeline->SetStep(step + 1);
    session_.position().Enter(control::RankPhase::kData);
    const MicroBatches parts = session_.micro_batches();
    workload_.Load(step, parts);
    const auto loaded = clock_.Now();
    session_.position().Enter(control::RankPhase::kCompute);
    session_.Begin();
    for (int64_t part = 1; part < parts.count(); ++part) session_.ExpectAnotherBackward();
    const Result<void> computed = Compute();
    if (!computed.ok() && !session_.step_broken()) return computed.error();
    const Outcome<StepResult> reduced = session_.Reduce();
    if (reduced.failed()) return reduced.error();
    if (reduced.world_changed()) {  // the step was discarded
      LogResumed();
      return {};
    }
    const StepResult& result = *reduced;
    if (result.finite) {
      skipped_in_a_row_ = 0;
      optimizer_.Step(step);
    } else {
      const Outcome<> skipped = JudgeNotFinite(step, result);
      if (skipped.failed()) return skipped.error();
      if (skipped.world_changed()) return {};
    }
    Log(step, begin, loaded, result);
    return session_.Applied(progress_);
  }

  Result<void> Compute() {
    {
      const TimedPart forward(plan_.timeline, clock_, "forward");
      const Result<double> loss = workload_.Forward(session_.collectives());
      if (!loss.ok()) return loss.error();
      const at::Tensor* const device_loss = workload_.device_loss();
      if (device_loss != nullptr) {
        session_.SetLoss(*device_loss);
      } else {
        session_.SetLoss(*loss);
      }
    }
    const TimedPart backward(plan_.timeline, clock_, "backward");
    return workload_.Backward(session_.collectives());
  }

  // Returns success if training continues in this world without the update.
  Outcome<> JudgeNotFinite(int64_t step, const StepResult& result) {
    const std::optional<double> scale =
        std::isfinite(result.loss) ? optimizer_.LowerLossScale() : std::nullopt;
    if (scale) {
      if (session_.world().rank == 0) {
        LogInfo("Skipped the update of a step whose gradients overflow in fp16",
                {{"step", step + 1}, {"loss_scale", *scale}});
      }
      ++summary_.skipped_steps;
      return Done{};
    }
    const auto found = session_.FindNotFinite([this] { return Compute(); });
    if (found.failed()) return found.error();
    if (found.world_changed()) {
      LogResumed();
      return WorldChanged{};
    }
    const std::string text = "step " + std::to_string(step + 1) + ": " +
                             WhatIsNotFinite(*found, std::isfinite(result.loss), workload_.model());
    constexpr int kMostInARow = 50;
    if (!plan_.skip_not_finite || ++skipped_in_a_row_ > kMostInARow) {
      return Error{ErrorKind::kInvalid,
                   text +
                       ": training diverged; try a smaller --learning-rate, check the data, or "
                       "skip such steps with --not-finite=skip"};
    }
    if (session_.world().rank == 0) LogWarn("Skipped the update of a step", {{"reason", text}});
    ++summary_.skipped_steps;
    return Done{};
  }

  // If the new world resumed from a state on disk or in shared memory, logs this.
  void LogResumed() {
    const World& world = session_.world();
    if (world.rank == 0 && session_.resumed()) {
      log_.Write(ToJsonLine(*session_.resumed(), world.epoch));
    }
  }

  void Log(int64_t step, Clock::Time begin, Clock::Time loaded, const StepResult& reduced) {
    last_update_ = clock_.Now();
    const double total = Millis(last_update_ - begin);
    session_.position().Applied(step + 1, last_update_ - begin,
                                last_update_ - begin - reduced.waited);
    if (step_millis_.empty())
      summary_.time_to_first_step_ms = plan_.process_millis ? plan_.process_millis() : total;
    step_millis_.push_back(total);
    waited_ += reduced.waited;
    networked_ += reduced.networked;
    const World& world = session_.world();
    const StepRecord record{
        .step = step + 1,
        .epoch = workload_.order().EpochOf(step) + 1,
        .loss = reduced.loss,
        .samples_per_second = static_cast<double>(plan_.global_batch) * 1000 / total,
        .data_ms = Millis(loaded - begin),
        .compute_ms = Millis(last_update_ - loaded) - Millis(reduced.waited),
        .communication_ms = Millis(reduced.waited),
        .overlap = Overlap(reduced.waited, reduced.networked),
        .world_size = world.size,
        .world_epoch = world.epoch};
    summary_.final_loss = reduced.loss;
    progress_ = {.step = record.step,
                 .total_steps = plan_.steps,
                 .samples_per_second = record.samples_per_second,
                 .loss = record.loss,
                 .accuracy = -1};
    if (world.rank != 0) return;
    const bool unusual = record.step == plan_.steps || !reduced.finite;
    if (pace_.Due(record.step, world.epoch, last_update_) || unusual)
      log_.Write(ToJsonLine(record));
  }

  // Each rank evaluates its share of the held-out samples; the counts are summed over the ranks.
  Outcome<> Evaluate() {
    const World& world = session_.world();
    session_.position().Enter(control::RankPhase::kEvaluate);
    const int64_t samples = workload_.held_out_size();
    const Evaluation mine = workload_.Evaluate(ShareOf(world.rank, world.size, samples));
    std::array<float, 1> correct{static_cast<float>(mine.correct)};  // exact up to 2^24 samples
    const Outcome<> summed = session_.Sum(correct);
    if (!summed.happened()) return summed;
    summary_.held_out_samples = samples;
    summary_.accuracy =
        samples > 0 ? static_cast<double>(correct[0]) / static_cast<double>(samples) : -1;
    return Done{};
  }

  void Summarise() {
    const double seconds = Millis(last_update_ - start_) / 1000;
    const auto trained = static_cast<double>(step_millis_.size());  // steps of this process
    summary_.steps = session_.applied_steps();
    summary_.global_batch = plan_.global_batch;
    summary_.samples = summary_.steps * plan_.global_batch;
    summary_.world_size = session_.world().size;
    summary_.seconds = seconds;
    summary_.overlap = Overlap(waited_, networked_);
    summary_.samples_per_second =
        seconds > 0 ? trained * static_cast<double>(plan_.global_batch) / seconds : 0;
    if (!step_millis_.empty()) {
      std::vector<double> sorted = step_millis_;
      const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
      std::nth_element(sorted.begin(), middle, sorted.end());
      summary_.step_ms_median = *middle;
    }
    progress_.step = summary_.steps;
    progress_.total_steps = plan_.steps;
    progress_.accuracy = summary_.accuracy;
  }

  Workload& workload_;
  Session& session_;
  Sgd& optimizer_;
  StepLog& log_;
  const Clock& clock_;
  const TrainPlan& plan_;
  StepPace pace_;

  Clock::Time start_{};
  Clock::Time last_update_{};
  std::vector<double> step_millis_;  // durations of the steps that this process applied
  std::chrono::nanoseconds waited_{0};
  std::chrono::nanoseconds networked_{0};
  int skipped_in_a_row_ = 0;
  RunSummary summary_;
  control::Progress progress_;
};

}  // namespace

Result<RunSummary> Train(Workload& workload, Session& session, Sgd& optimizer, StepLog& log,
                         const Clock& clock, const TrainPlan& plan) {
  try {
    return Trainer(workload, session, optimizer, log, clock, plan).Run();
  } catch (const c10::OutOfMemoryError& error) {
    return Error{ErrorKind::kInvalid,
                 OutOfMemorySentence(error.what_without_backtrace(),
                                     "computing a step (activations, gradients, logits)",
                                     "lower --micro-batch, so that less is computed at once")};
  } catch (const std::exception& error) {
    return Error{ErrorKind::kInternal, std::string("while computing: ") + error.what()};
  }
}

}  // namespace ringmaster::trainer
