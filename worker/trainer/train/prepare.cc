#include "worker/trainer/train/prepare.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>

#include <ATen/Parallel.h>

#include "common/control/pod_contract.h"
#include "worker/trainer/environment/rank_environment.h"
#include "worker/trainer/optim/sgd.h"
#include "worker/trainer/train/dry_run.h"

namespace ringmaster::trainer {
namespace {

// Returns the number of ranks that the job may have; 0 if unknown.
int MostRanks(const TrainOptions& options) {
  const int most = NumberIn(control::kEnvMaxRanks);
  return most > 0 ? most : options.world_size;
}

// Rejects a job that could grow to more ranks than the sharded state has rows.
Result<void> CheckRows(Workload& workload, const TrainOptions& options) {
  const int ranks = MostRanks(options);
  if (workload.sharded() == nullptr || workload.sharded()->all_rows() >= ranks) return {};
  return Error{
      ErrorKind::kInvalid,
      "the data has " + std::to_string(workload.sharded()->all_rows()) +
          " classes, fewer than the " + std::to_string(ranks) +
          " ranks that this job may have (workers times slotsPerWorker), but each rank needs at "
          "least one; lower maxReplicas or slotsPerWorker, or train more classes"};
}

Result<std::unique_ptr<Gpu>> FindGpu(const TrainOptions& options) {
  const GpuRequest request{
      .device = options.device,
      .gpus = NumberIn(control::kEnvGpus),
      .local_rank = options.world_size > 0 ? options.rank : NumberIn(control::kEnvSlot),
      .share = GpusAreShared(),
      .flag = "",
      .pinned = options.world_size > 0 ? "" : PinnedGpu()};
  if (!WantsGpu(request)) return std::unique_ptr<Gpu>();
  const Result<std::optional<int>> number = ChooseGpu(request, FindGpus());
  if (!number.ok()) return number.error();
  return OpenGpu(number->value(), options.gpu_release_limit);
}

BucketOptions BucketsOf(const TrainOptions& options, const Workload& workload) {
  BucketOptions buckets = BucketOptions::Of(std::llround(options.bucket_mib * (1 << 20)));
  buckets.averages = workload.averages();
  return buckets;
}

}  // namespace

Result<Prepared> Prepare(const TrainOptions& options) {
  if (auto enough = CheckGlobalBatch("--global-batch", options.global_batch, MostRanks(options));
      !enough.ok()) {
    return enough.error();
  }
  Result<std::unique_ptr<Gpu>> gpu = FindGpu(options);
  if (!gpu.ok()) return gpu.error();
  at::set_num_threads(std::max(1, options.threads));
  Result<MadeWorkload> made = MakeWorkload(options, *gpu == nullptr ? "cpu" : (*gpu)->device());
  if (!made.ok()) return made.error();
  if (auto enough = CheckRows(*made->workload, options); !enough.ok()) return enough.error();
  made->workload->WarmUp();
  const BucketOptions buckets = BucketsOf(options, *made->workload);
  return Prepared{.gpu = *std::move(gpu), .made = *std::move(made), .buckets = buckets};
}

Result<std::string> Describe(const TrainOptions& options) {
  const Result<Prepared> prepared = Prepare(options);
  if (!prepared.ok()) return prepared.error();
  Workload& workload = *prepared->made.workload;
  Buckets buckets(workload.parameters(), prepared->buckets);
  const Sgd optimizer(buckets.flat_parameters(), buckets.flat_gradients(), prepared->made.sgd);
  RunFacts facts{.workload = options.workload,
                 .device = prepared->gpu == nullptr ? "cpu" : prepared->gpu->device(),
                 .data = options.data,
                 .training_samples = workload.order().samples(),
                 .held_out_samples = workload.held_out_size(),
                 .steps = prepared->made.steps,
                 .global_batch = options.global_batch,
                 .micro_batch = options.micro_batch,
                 .ranks = std::max(1, MostRanks(options)),
                 .parameters = 0,
                 .state_bytes = 0,
                 .bucket_bytes = {},
                 .precision = NameOf(options.precision),
                 .compression = NameOf(options.compression),
                 .checkpoint_dir = options.checkpoint_dir,
                 .checkpoint_every = options.checkpoint_every};
  for (const at::Tensor& parameter : workload.parameters()) facts.parameters += parameter.numel();
  for (const std::span<float> part : optimizer.state()) {
    facts.state_bytes += static_cast<int64_t>(part.size_bytes());
  }
  if (workload.sharded() != nullptr) {
    facts.classes = workload.sharded()->all_rows();
    facts.embedding = options.partial_fc.embedding;
    facts.sample_rate = options.partial_fc.sample_rate;
  }
  for (int i = 0; i < buckets.count(); ++i) {
    facts.bucket_bytes.push_back(static_cast<int64_t>(buckets.Bucket(i).bytes()));
  }
  return DryRunText(facts);
}

}  // namespace ringmaster::trainer
