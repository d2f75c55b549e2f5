#include "worker/trainer/train/dry_run.h"

#include <array>
#include <cstdio>

#include "common/base/byte_text.h"
#include "common/base/count_text.h"

namespace ringmaster::trainer {
namespace {

std::string Line(const char* name, const std::string& value) {
  std::array<char, 32> padded{};
  std::snprintf(padded.data(), padded.size(), "  %-14s ", name);
  return padded.data() + value + "\n";
}

// Returns for example "96" if all shares are equal, otherwise "85 or 86".
std::string ShareText(int64_t global_batch, int ranks) {
  const int64_t least = global_batch / ranks;
  const std::string text = std::to_string(least);
  return global_batch % ranks == 0 ? text : text + " or " + std::to_string(least + 1);
}

std::string MicroBatchText(int64_t micro_batch) {
  return micro_batch > 0 ? "at most " + std::to_string(micro_batch) + " samples at once"
                         : std::string("a rank's share when all workers are present");
}

std::string BucketText(const std::vector<int64_t>& bytes) {
  std::string text = std::to_string(bytes.size()) + ":";
  for (const int64_t each : bytes) text += " " + BytesText(each);
  return text;
}

std::string CentresText(const RunFacts& facts) {
  const int64_t most = (facts.classes + facts.ranks - 1) / facts.ranks;
  const std::string shard =
      BytesText(most * facts.embedding * 2 * static_cast<int64_t>(sizeof(float)));
  std::array<char, 32> rate{};
  std::snprintf(rate.data(), rate.size(), "%g", facts.sample_rate);
  return std::to_string(facts.classes) + " of " + std::to_string(facts.embedding) +
         " numbers each, a fraction of " + rate.data() + " of them per step; " + shard +
         " per rank with momentum" +
         (facts.ranks > 1 ? ", and a copy of another rank's on the host" : "");
}

}  // namespace

std::string DryRunText(const RunFacts& facts) {
  return "Loaded data and model; nothing was trained.\n" + Line("workload", facts.workload) +
         Line("parameters", std::to_string(facts.parameters) + " (" + BytesText(facts.state_bytes) +
                                " with the optimizer's state)") +
         (facts.classes > 0 ? Line("class centres", CentresText(facts)) : "") +
         Line("device", facts.device) +
         Line("data", facts.data + ": " + std::to_string(facts.training_samples) + " samples, " +
                          std::to_string(facts.held_out_samples) + " held out") +
         Line("steps", std::to_string(facts.steps) + " of " + std::to_string(facts.global_batch) +
                           " samples") +
         Line("per rank", ShareText(facts.global_batch, facts.ranks) + " samples per step, on " +
                              CountText(facts.ranks, "rank")) +
         Line("micro-batch", MicroBatchText(facts.micro_batch)) +
         Line("buckets", BucketText(facts.bucket_bytes)) + Line("precision", facts.precision) +
         Line("compression", facts.compression) +
         Line("checkpoints", facts.checkpoint_dir.empty()
                                 ? std::string("none (--checkpoint-dir)")
                                 : "every " + CountText(facts.checkpoint_every, "step") +
                                       ", into " + facts.checkpoint_dir);
}

}  // namespace ringmaster::trainer
