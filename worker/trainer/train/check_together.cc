#include "worker/trainer/train/check_together.h"

#include <string>

#include "worker/trainer/partial_fc/margin_name.h"

namespace ringmaster::trainer {
namespace {

Result<void> CheckPartialFc(const TrainOptions& options) {
  const auto wrong = [](const std::string& text) { return Error{ErrorKind::kInvalid, text}; };
  const PartialFcFlags& flags = options.partial_fc;
  if (options.workload != kPartialFcWorkload) return {};
  if (!(flags.sample_rate > 0 && flags.sample_rate <= 1)) {
    return wrong("--sample-rate must be above 0 and at most 1");
  }
  if (options.data == kSyntheticData && flags.classes == 0) {
    return wrong("--data=synthetic requires --classes, the number of identities to generate");
  }
  if (flags.classes != 0 && flags.classes < options.world_size) {
    return wrong("--classes=" + std::to_string(flags.classes) + " is less than --world-size=" +
                 std::to_string(options.world_size) + ", but each rank needs at least one class");
  }
  if (options.max_shift != 0) return wrong("--max-shift cannot be used with --workload=partial-fc");
  if (Result<partial_fc::Margin> margin = partial_fc::ParseMargin(flags.margin); !margin.ok()) {
    return margin.error();
  }
  return {};
}

Result<void> CheckPrecision(const TrainOptions& options) {
  const auto refuse = [](const char* why) {
    return Error{ErrorKind::kInvalid, std::string("--precision=fp16 scales the loss, ") + why +
                                          "; use --precision=bf16, which does not scale"};
  };
  if (options.precision != Precision::kFloat16) return {};
  if (options.workload == kPartialFcWorkload) {
    return refuse("and skips steps, which --workload=partial-fc does not support");
  }
  if (options.compression != Compression::kNone) {
    return refuse("and the residuals of --compression would have an older scale");
  }
  return {};
}

Result<void> CheckWorld(const TrainOptions& options) {
  const auto wrong = [](const char* text) { return Error{ErrorKind::kInvalid, text}; };
  if (!options.membership_schedule.empty()) {
    if (options.world_size != 0)
      return wrong("--membership-schedule sets the number of ranks; remove --world-size");
    if (options.store.empty())
      return wrong(
          "--membership-schedule requires --store, a folder in which the ranks find each other");
    return {};
  }
  if (options.world_size == 0) {
    if (!options.store.empty() || options.rank != 0)
      return wrong("--rank and --store require --world-size or --membership-schedule");
    return {};
  }
  if (options.rank >= options.world_size) {
    return wrong("--rank must be below --world-size, because ranks count from 0");
  }
  if (options.world_size > 1 && options.store.empty()) {
    return wrong(
        "--world-size above 1 requires --store, a folder in which the ranks find each other");
  }
  return {};
}

Result<void> CheckRestore(const TrainOptions& options) {
  const auto wrong = [](const char* text) { return Error{ErrorKind::kInvalid, text}; };
  const std::string& job = options.restore_job;
  if (job.empty() && options.restore_path.empty()) return {};
  if (options.checkpoint_dir.empty()) {
    return wrong(
        "--restore-job and --restore-path require --checkpoint-dir, the folder of the checkpoints");
  }
  if (job == "." || job == ".." || job.find('/') != std::string::npos) {
    return wrong(
        "--restore-job must be the name of a TrainingJob; use --restore-path for a folder");
  }
  return {};
}

}  // namespace

Result<void> CheckTogether(const TrainOptions& options) {
  for (const auto check : {CheckRestore, CheckWorld, CheckPrecision, CheckPartialFc}) {
    if (Result<void> checked = check(options); !checked.ok()) return checked;
  }
  return {};
}

}  // namespace ringmaster::trainer
