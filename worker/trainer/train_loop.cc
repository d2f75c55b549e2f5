#include "worker/trainer/train_loop.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace ringmaster::trainer {
namespace {

double Millis(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
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
        plan_(plan) {
    step_millis_.reserve(static_cast<std::size_t>(plan.steps));
  }

  Result<RunSummary> Run() {
    start_ = clock_.Now();
    last_update_ = start_;
    if (session_.world().rank == 0 && session_.applied_steps() == 0) log_.Restart();
    LogResumed();
    // A world that breaks after the last step is followed by another, whose ranks may have to
    // repeat that step, and measure again.
    for (bool released = false; !released;) {
      while (session_.applied_steps() < plan_.steps) {
        if (Result<void> stepped = Step(); !stepped.ok()) return stepped.error();
      }
      const Result<bool> evaluated = Evaluate();
      if (!evaluated.ok()) return evaluated.error().WithContext("measuring the held-out accuracy");
      if (!*evaluated) continue;
      Summarise();
      const Result<bool> finished = session_.Finish(progress_);
      if (!finished.ok()) return finished.error();
      released = *finished;
    }
    if (session_.world().rank == 0) log_.Write(ToJsonLine(summary_));
    return summary_;
  }

 private:
  Result<void> Step() {
    const int64_t step = session_.applied_steps();
    const auto begin = clock_.Now();
    session_.position().Enter(control::RankPhase::kData);
    workload_.Load(step, session_.share());
    const auto loaded = clock_.Now();
    session_.position().Enter(control::RankPhase::kCompute);
    session_.Begin();
    session_.SetLoss(workload_.Forward());
    if (session_.share().size() > 0) workload_.Backward();
    const Result<std::optional<StepResult>> reduced = session_.Reduce();
    if (!reduced.ok()) return reduced.error();
    if (!reduced->has_value()) {  // the step did not happen
      LogResumed();
      return {};
    }
    const StepResult& result = **reduced;
    if (!std::isfinite(result.loss)) {
      return Error{ErrorKind::kInvalid,
                   "the loss of step " + std::to_string(step + 1) +
                       " is not a finite number: training diverged; try a smaller --learning-rate"};
    }
    optimizer_.Step(step);
    Log(step, begin, loaded, result);
    return session_.Applied(progress_);
  }

  // On entering a world in which the state came from disk or shared memory.
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
    const World& world = session_.world();
    const StepRecord record{
        .step = step + 1,
        .epoch = workload_.order().EpochOf(step) + 1,
        .loss = reduced.loss,
        .samples_per_second = static_cast<double>(plan_.global_batch) * 1000 / total,
        .data_ms = Millis(loaded - begin),
        .compute_ms = Millis(last_update_ - loaded) - Millis(reduced.waited),
        .communication_ms = Millis(reduced.waited),
        .world_size = world.size,
        .world_epoch = world.epoch};
    summary_.final_loss = reduced.loss;
    progress_ = {.step = record.step,
                 .total_steps = plan_.steps,
                 .samples_per_second = record.samples_per_second,
                 .loss = record.loss,
                 .accuracy = -1};
    const bool wanted =
        step == 0 || record.step == plan_.steps || record.step % plan_.log_every == 0;
    if (wanted && world.rank == 0) log_.Write(ToJsonLine(record));
  }

  // Every rank scores its share of the held-out samples; the counts are summed.
  Result<bool> Evaluate() {
    const World& world = session_.world();
    session_.position().Enter(control::RankPhase::kEvaluate);
    const int64_t samples = workload_.held_out_size();
    const Evaluation mine = workload_.Evaluate(ShareOf(world.rank, world.size, samples));
    std::array<float, 1> correct{static_cast<float>(mine.correct)};  // exact up to 2^24 samples
    const Result<bool> summed = session_.Sum(correct);
    if (!summed.ok() || !*summed) return summed;
    summary_.held_out_samples = samples;
    summary_.accuracy =
        samples > 0 ? static_cast<double>(correct[0]) / static_cast<double>(samples) : -1;
    return true;
  }

  void Summarise() {
    const double seconds = Millis(last_update_ - start_) / 1000;
    const auto trained = static_cast<double>(step_millis_.size());  // by this process
    summary_.steps = session_.applied_steps();
    summary_.global_batch = plan_.global_batch;
    summary_.samples = summary_.steps * plan_.global_batch;
    summary_.world_size = session_.world().size;
    summary_.seconds = seconds;
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

  Clock::Time start_{};
  Clock::Time last_update_{};
  std::vector<double> step_millis_;  // of the steps that this process applied
  RunSummary summary_;
  control::Progress progress_;
};

}  // namespace

Result<RunSummary> Train(Workload& workload, Session& session, Sgd& optimizer, StepLog& log,
                         const Clock& clock, const TrainPlan& plan) {
  try {
    return Trainer(workload, session, optimizer, log, clock, plan).Run();
  } catch (const std::exception& error) {
    return Error{ErrorKind::kInternal, std::string("while computing: ") + error.what()};
  }
}

}  // namespace ringmaster::trainer
