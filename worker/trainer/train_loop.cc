#include "worker/trainer/train_loop.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <string>
#include <vector>

namespace ringmaster::trainer {
namespace {

double Millis(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

class Trainer {
 public:
  Trainer(Workload& workload, Session& session, Buckets& buckets, StepLog& log, const Clock& clock,
          const TrainPlan& plan)
      : workload_(workload),
        session_(session),
        optimizer_(buckets.flat_parameters(), buckets.flat_gradients(), plan.sgd),
        log_(log),
        clock_(clock),
        plan_(plan) {
    step_millis_.reserve(static_cast<std::size_t>(plan.steps));
  }

  Result<RunSummary> Run() {
    const auto start = clock_.Now();
    while (session_.committed_steps() < plan_.steps) {
      const Result<void> stepped = Step();
      if (!stepped.ok()) return stepped.error();
    }
    const double seconds = Millis(clock_.Now() - start) / 1000;
    const Result<void> evaluated = Evaluate();
    if (!evaluated.ok()) return evaluated.error();
    Summarise(seconds);
    return summary_;
  }

 private:
  Result<void> Step() {
    const int64_t step = session_.committed_steps();
    const auto begin = clock_.Now();
    workload_.Load(step, session_.share());
    const auto loaded = clock_.Now();
    session_.Begin();
    session_.SetLoss(workload_.Forward());
    if (session_.share().size() > 0) workload_.Backward();
    const Result<StepResult> reduced = session_.Reduce();
    if (!reduced.ok()) return reduced.error();
    if (!std::isfinite(reduced->loss)) {
      return Error{ErrorKind::kInvalid,
                   "the loss of step " + std::to_string(step + 1) +
                       " is not a finite number: training diverged; try a smaller --learning-rate"};
    }
    optimizer_.Step(step);
    session_.Commit();
    Log(step, begin, loaded, *reduced);
    return {};
  }

  void Log(int64_t step, Clock::Time begin, Clock::Time loaded, const StepResult& reduced) {
    const auto end = clock_.Now();
    const double total = Millis(end - begin);
    step_millis_.push_back(total);
    if (step == 0)
      summary_.time_to_first_step_ms = plan_.process_millis ? plan_.process_millis() : total;
    const StepRecord record{
        .step = step + 1,
        .epoch = workload_.order().EpochOf(step) + 1,
        .loss = reduced.loss,
        .samples_per_second = static_cast<double>(plan_.global_batch) * 1000 / total,
        .data_ms = Millis(loaded - begin),
        .compute_ms = Millis(end - loaded) - Millis(reduced.waited),
        .communication_ms = Millis(reduced.waited)};
    summary_.final_loss = reduced.loss;
    progress_ = {.step = record.step,
                 .total_steps = plan_.steps,
                 .samples_per_second = record.samples_per_second,
                 .loss = record.loss,
                 .accuracy = -1};
    session_.Report(progress_);
    const bool wanted =
        step == 0 || record.step == plan_.steps || record.step % plan_.log_every == 0;
    if (wanted && session_.world().rank == 0) log_.Write(ToJsonLine(record));
  }

  // Every rank scores its share of the held-out samples; the counts are summed.
  Result<void> Evaluate() {
    const World& world = session_.world();
    const int64_t samples = workload_.held_out_size();
    const Evaluation mine = workload_.Evaluate(ShareOf(world.rank, world.size, samples));
    std::array<float, 1> correct{static_cast<float>(mine.correct)};  // exact up to 2^24 samples
    const Result<void> summed = session_.Sum(correct);
    if (!summed.ok()) return summed.error().WithContext("measuring the held-out accuracy");
    summary_.held_out_samples = samples;
    summary_.accuracy =
        samples > 0 ? static_cast<double>(correct[0]) / static_cast<double>(samples) : -1;
    return {};
  }

  void Summarise(double seconds) {
    summary_.steps = session_.committed_steps();
    summary_.global_batch = plan_.global_batch;
    summary_.samples = summary_.steps * plan_.global_batch;
    summary_.world_size = session_.world().size;
    summary_.seconds = seconds;
    summary_.samples_per_second = seconds > 0 ? static_cast<double>(summary_.samples) / seconds : 0;
    if (!step_millis_.empty()) {
      const auto middle =
          step_millis_.begin() + static_cast<std::ptrdiff_t>(step_millis_.size() / 2);
      std::nth_element(step_millis_.begin(), middle, step_millis_.end());
      summary_.step_ms_median = *middle;
    }
    if (session_.world().rank == 0) log_.Write(ToJsonLine(summary_));
  }

  Workload& workload_;
  Session& session_;
  Sgd optimizer_;
  StepLog& log_;
  const Clock& clock_;
  const TrainPlan& plan_;

  std::vector<double> step_millis_;
  RunSummary summary_;
  control::Progress progress_;
};

}  // namespace

Result<RunSummary> Train(Workload& workload, Session& session, Buckets& buckets, StepLog& log,
                         const Clock& clock, const TrainPlan& plan) {
  try {
    return Trainer(workload, session, buckets, log, clock, plan).Run();
  } catch (const std::exception& error) {
    return Error{ErrorKind::kInternal, std::string("while computing: ") + error.what()};
  }
}

}  // namespace ringmaster::trainer
