#include "worker/trainer/train/make_workload.h"

#include <algorithm>
#include <string>
#include <utility>

#include "worker/trainer/gpu/kernel_head_device.h"
#include "worker/trainer/numeric/fingerprint.h"
#include "worker/trainer/partial_fc/margin_name.h"
#include "worker/trainer/train/shaping.h"
#include "worker/trainer/workloads/mnist.h"
#include "worker/trainer/workloads/partial_fc.h"

namespace ringmaster::trainer {
namespace {

constexpr double kPartialFcWeightDecay = 5e-4;

int64_t HeldOutOf(const TrainOptions& options) {
  return std::max<int64_t>(1, options.generated_samples / 4);
}

}  // namespace

Result<Dataset> LoadDigits(const TrainOptions& options) {
  if (options.data == kGeneratedData || options.data == kSyntheticData) {
    return GeneratedDigits(options.seed, options.generated_samples, HeldOutOf(options));
  }
  Result<Dataset> data = LoadIdxFolder(options.data);
  if (!data.ok()) return data.error().WithContext("reading the training data");
  return data;
}

Result<LabelledData> LoadLabelled(const TrainOptions& options) {
  const PartialFcFlags& flags = options.partial_fc;
  if (options.data == kSyntheticData) {
    return SyntheticIdentities({.seed = options.seed,
                                .classes = flags.classes,
                                .training = options.generated_samples,
                                .held_out = HeldOutOf(options),
                                .shape = {.channels = 3, .side = flags.image_side}});
  }
  Result<Dataset> digits = LoadDigits(options);
  if (!digits.ok()) return digits.error();
  LabelledData data = LabelledDigits(*std::move(digits));
  if (flags.classes != 0 && flags.classes != data.classes) {
    return Error{ErrorKind::kInvalid, "--classes=" + std::to_string(flags.classes) +
                                          ", but the data has " + std::to_string(data.classes) +
                                          "; remove it or use --data=synthetic"};
  }
  return data;
}

namespace {

SgdOptions SgdOf(const TrainOptions& options, int64_t steps) {
  const double usual = options.workload == kPartialFcWorkload ? kPartialFcWeightDecay : 0;
  RateSchedule schedule = RateSchedule::kCosine;
  if (options.schedule == "constant") schedule = RateSchedule::kConstant;
  if (options.schedule == "polynomial") schedule = RateSchedule::kPolynomial;
  return {.learning_rate = options.learning_rate,
          .momentum = options.momentum,
          .schedule = schedule,
          .total_steps = steps,
          .warmup_steps = options.warmup_steps,
          .weight_decay = options.weight_decay.value_or(usual)};
}

// Returns the number of threads that assemble batches: more for a GPU, which trains faster.
int LoaderThreads(const TrainOptions& options, const std::string& device) {
  return options.loader_threads.value_or(device == "cpu" ? 1 : 4);
}

int64_t StepsOf(const TrainOptions& options, int64_t samples) {
  if (options.steps > 0) return options.steps;
  return DataOrder(options.seed, samples, options.global_batch).StepsFor(options.epochs);
}

Result<MadeWorkload> MakeMnistWorkload(const TrainOptions& options, const std::string& device) {
  Result<Dataset> data = LoadDigits(options);
  if (!data.ok()) return data.error();
  MadeWorkload made;
  made.steps = StepsOf(options, data->training->size());
  made.sgd = SgdOf(options, made.steps);
  if (options.precision == Precision::kFloat16) {
    made.sgd.loss_scale = std::make_shared<LossScale>(at::Device(device));
  }
  made.workload = MakeMnist(*std::move(data), {.seed = options.seed,
                                               .global_batch = options.global_batch,
                                               .max_shift = options.max_shift,
                                               .loader_threads = LoaderThreads(options, device),
                                               .constant_batch = options.data == kSyntheticData,
                                               .device = device,
                                               .precision = options.precision,
                                               .loss_scale = made.sgd.loss_scale});
  return made;
}

Result<MadeWorkload> MakePartialFcWorkload(const TrainOptions& options, const std::string& device) {
  const PartialFcFlags& flags = options.partial_fc;
  Result<partial_fc::Margin> margin = partial_fc::ParseMargin(flags.margin);
  if (!margin.ok()) return margin.error();
  margin->scale = static_cast<float>(flags.scale);
  Result<LabelledData> data = LoadLabelled(options);
  if (!data.ok()) return data.error();
  MadeWorkload made;
  made.steps = StepsOf(options, data->training->size());
  made.sgd = SgdOf(options, made.steps);
  partial_fc::HeadOptions head;
  head.dimension = flags.embedding;
  head.sampling = {.seed = options.seed, .rate = flags.sample_rate};
  head.margin = *margin;
  head.learning_rate = [sgd = made.sgd](int64_t step) { return RateAt(sgd, step); };
  head.momentum = made.sgd.momentum;
  head.weight_decay = made.sgd.weight_decay;
  head.dense_update = flags.dense_update;
  made.workload =
      MakePartialFc(*std::move(data), {.seed = options.seed,
                                       .global_batch = options.global_batch,
                                       .loader_threads = LoaderThreads(options, device),
                                       .backbone = flags.backbone,
                                       .precision = options.precision,
                                       .table = {.head = std::move(head),
                                                 .replica_every = flags.replica_every,
                                                 .checksums = !options.audit_log.empty(),
                                                 .device = MakeHeadDevice(device)},
                                       .device = device});
  made.sgd.averages = made.workload->averages();
  return made;
}

}  // namespace

Result<MadeWorkload> MakeWorkload(const TrainOptions& options, const std::string& device) {
  if (options.workload == kPartialFcWorkload) return MakePartialFcWorkload(options, device);
  return MakeMnistWorkload(options, device);
}

std::string ShapingOf(const TrainOptions& options, const MadeWorkload& made) {
  return ShapingOf(options, {.steps = made.steps,
                             .weight_decay = made.sgd.weight_decay,
                             .data = made.workload->fingerprint()});
}

uint64_t FingerprintOf(const TrainOptions& options, const MadeWorkload& made) {
  Fingerprint fingerprint(made.workload->fingerprint());
  fingerprint.Add(ShapingOf(options, made));
  fingerprint.Add(made.workload->model());
  fingerprint.Add(std::to_string(options.bucket_mib));
  fingerprint.Add(std::to_string(options.partial_fc.replica_every));
  fingerprint.Add(RINGMASTER_VERSION);
  return fingerprint.value();
}

}  // namespace ringmaster::trainer
