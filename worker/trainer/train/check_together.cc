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
    return wrong("--sample-rate must be above 0 and at most 1: it is a part of the classes");
  }
  if (options.data == kSyntheticData && flags.classes == 0) {
    return wrong("--data=synthetic needs --classes: how many identities to make up");
  }
  if (flags.classes != 0 && flags.classes < options.world_size) {
    return wrong("--classes=" + std::to_string(flags.classes) +
                 " is less than --world-size=" + std::to_string(options.world_size) +
                 ": each rank holds the centre of at least one class");
  }
  if (options.max_shift != 0) return wrong("--max-shift is not for --workload=partial-fc");
  if (Result<partial_fc::Margin> margin = partial_fc::ParseMargin(flags.margin); !margin.ok()) {
    return margin.error();
  }
  return {};
}

Result<void> CheckPrecision(const TrainOptions& options) {
  const auto refuse = [](const char* why) {
    return Error{ErrorKind::kInvalid, std::string("--precision=fp16 scales the loss, ") + why +
                                          ": use --precision=bf16, which needs no scale"};
  };
  if (options.precision != Precision::kFloat16) return {};
  if (options.workload == kPartialFcWorkload) {
    return refuse("and leaves out steps, which --workload=partial-fc cannot");
  }
  if (options.compression != Compression::kNone) {
    return refuse("and what --compression still owes would be of an older scale");
  }
  return {};
}

Result<void> CheckWorld(const TrainOptions& options) {
  const auto wrong = [](const char* text) { return Error{ErrorKind::kInvalid, text}; };
  if (!options.membership_schedule.empty()) {
    if (options.world_size != 0)
      return wrong("--membership-schedule says how many ranks there are: leave out --world-size");
    if (options.store.empty())
      return wrong(
          "--membership-schedule needs --store: a folder in which the ranks find each other");
    return {};
  }
  if (options.world_size == 0) {
    if (!options.store.empty() || options.rank != 0)
      return wrong("--rank and --store need --world-size, or --membership-schedule");
    return {};
  }
  if (options.rank >= options.world_size) {
    return wrong("--rank must be below --world-size: ranks count from 0");
  }
  if (options.world_size > 1 && options.store.empty()) {
    return wrong("--world-size above 1 needs --store: a folder in which the ranks find each other");
  }
  return {};
}

Result<void> CheckRestore(const TrainOptions& options) {
  const auto wrong = [](const char* text) { return Error{ErrorKind::kInvalid, text}; };
  const std::string& job = options.restore_job;
  if (job.empty() && options.restore_path.empty()) return {};
  if (options.checkpoint_dir.empty()) {
    return wrong(
        "--restore-job and --restore-path need --checkpoint-dir: where the checkpoints are");
  }
  if (job == "." || job == ".." || job.find('/') != std::string::npos) {
    return wrong("--restore-job is the name of a TrainingJob; for a folder pass --restore-path");
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
