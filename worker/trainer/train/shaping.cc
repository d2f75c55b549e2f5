#include "worker/trainer/train/shaping.h"

#include <array>
#include <charconv>
#include <type_traits>

#include "common/base/hex.h"

namespace ringmaster::trainer {
namespace {

// The flags that affect the result of training; --epochs does so through the number of steps.
constexpr std::array kShapingFlags{"--workload",    "--data",         "--generated-samples",
                                   "--max-shift",   "--global-batch", "--micro-batch",
                                   "--epochs",      "--steps",        "--learning-rate",
                                   "--schedule",    "--warmup-steps", "--weight-decay",
                                   "--momentum",    "--seed",         "--not-finite",
                                   "--compression", "--precision",    "--classes",
                                   "--embedding",   "--sample-rate",  "--dense-update",
                                   "--margin",      "--scale",        "--backbone",
                                   "--image-side"};

constexpr std::array kOtherFlags{"--help",
                                 "--version",
                                 "--check-build",
                                 "--dry-run",
                                 "--loader-threads",
                                 "--step-log",
                                 "--audit-log",
                                 "--timeline",
                                 "--log-every",
                                 "--timeout",
                                 "--threads",
                                 "--device",
                                 "--gpu-release-limit",
                                 "--transport",
                                 "--bucket-mib",
                                 "--checkpoint-dir",
                                 "--checkpoint-every",
                                 "--checkpoint-keep",
                                 "--restore-job",
                                 "--restore-path",
                                 "--snapshot-dir",
                                 "--rank",
                                 "--world-size",
                                 "--store",
                                 "--address",
                                 "--membership-schedule",
                                 "--replica-every"};

template <typename T>
std::string Text(const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    std::array<char, 40> digits{};
    const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    return {digits.data(), end};
  } else {
    return value;
  }
}

}  // namespace

std::span<const char* const> ShapingFlags() { return kShapingFlags; }
std::span<const char* const> OtherFlags() { return kOtherFlags; }

std::string ShapingOf(const TrainOptions& options, const ShapedBy& by) {
  std::string text;
  const auto add = [&](const char* name, const auto& value) {
    text += std::string(name) + "=" + Text(value) + "\n";
  };
  const bool digits = options.workload == kMnistWorkload;
  const bool made_up = options.data == kGeneratedData || options.data == kSyntheticData;
  add("--workload", options.workload);
  if (made_up) add("--data", options.data);  // the files' location does not affect training
  if (made_up) add("--generated-samples", options.generated_samples);
  if (digits) add("--max-shift", options.max_shift);
  add("--global-batch", options.global_batch);
  add("--steps", by.steps);
  add("--learning-rate", options.learning_rate);
  add("--schedule", options.schedule);
  add("--warmup-steps", options.warmup_steps);
  add("--weight-decay", by.weight_decay);
  add("--momentum", options.momentum);
  add("--seed", options.seed);
  add("--not-finite", std::string(options.skip_not_finite ? "skip" : "stop"));
  add("--compression", std::string(NameOf(options.compression)));
  add("--precision", std::string(NameOf(options.precision)));
  if (!digits) {
    // For the digits' network, the micro-batch only changes rounding, so it is not added.
    if (options.micro_batch > 0) add("--micro-batch", options.micro_batch);
    const PartialFcFlags& flags = options.partial_fc;
    add("--classes", flags.classes);
    add("--embedding", flags.embedding);
    add("--sample-rate", flags.sample_rate);
    add("--dense-update", std::string(flags.dense_update ? "true" : "false"));
    add("--margin", flags.margin);
    add("--scale", flags.scale);
    add("--backbone", flags.backbone);
    if (options.data == kSyntheticData) add("--image-side", flags.image_side);
  }
  add("training data", HexOf(by.data));
  return text;
}

}  // namespace ringmaster::trainer
