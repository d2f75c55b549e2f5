#include "operator/api/spec_texts.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "common/base/cut_text.h"
#include "operator/api/conditions.h"
#include "operator/api/names.h"

namespace ringmaster::api {

namespace {

std::size_t BytesOf(const std::vector<std::string>& texts) {
  std::size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size() + sizeof text;
  return bytes;
}

constexpr std::size_t kShortCommandBytes = 4096;

}  // namespace

bool NeedsTexts(const TrainingJob& job) {
  const std::string& manager = job.spec.managed_by;
  // A suspended job does not need its texts: when it is resumed, the watch delivers them again.
  const bool suspended = job.spec.suspend && IsTrue(job.status.conditions, kSuspended);
  const bool ended = IsTerminal(job.status);
  const bool makes_pods = (!suspended && !ended) || (job.deleting && job.held);
  return makes_pods && (manager.empty() || manager == kManagedByOperator);
}

void LeaveTextsOut(TrainingJobSpec::Texts why, TrainingJobSpec& spec) {
  TrainingJobSpec rest;
  if (spec.image.size() <= kMaxTextBytes) rest.image = std::move(spec.image);
  // Keep the start of the command, which shows whether the program writes checkpoints.
  if (BytesOf(spec.command) <= kShortCommandBytes) {
    rest.command = std::move(spec.command);
  } else if (!spec.command.empty()) {
    rest.command = {CutText(std::move(spec.command.front()), kShortCommandBytes)};
  }
  if (spec.profile.size() <= kMaxTextBytes) rest.profile = std::move(spec.profile);
  rest.slots_per_worker = spec.slots_per_worker;
  rest.launch_mode = spec.launch_mode;
  rest.inject = spec.inject;
  rest.elasticity_mode = spec.elasticity_mode;
  rest.worker.replicas = spec.worker.replicas;
  rest.worker.min_replicas = spec.worker.min_replicas;
  rest.worker.max_replicas = spec.worker.max_replicas;
  if (spec.checkpoint) {
    rest.checkpoint = CheckpointSpec{.every_steps = spec.checkpoint->every_steps,
                                     .keep = spec.checkpoint->keep,
                                     .delete_with_job = spec.checkpoint->delete_with_job};
  }
  rest.run_policy = std::move(spec.run_policy);
  rest.suspend = spec.suspend;
  rest.managed_by = std::move(spec.managed_by);
  rest.texts = why;
  rest.longest_text = std::move(spec.longest_text);
  // Use exchange, because an assignment would keep the memory of the long strings.
  std::exchange(spec, std::move(rest));
}

void BoundTexts(TrainingJobSpec& spec) {
  std::size_t of_worker = spec.worker.template_json.size() + spec.worker.gpu_resource.size();
  for (const auto& [name, count] : spec.worker.rdma) of_worker += name.size();
  const std::pair<const char*, std::size_t> fields[] = {
      {"spec.image", spec.image.size()},
      {"spec.command", BytesOf(spec.command)},
      {"spec.profile", spec.profile.size()},
      {"spec.network", BytesOf(spec.interfaces.include) + BytesOf(spec.interfaces.exclude)},
      {"spec.checkpoint.restoreFrom",
       spec.checkpoint ? spec.checkpoint->restore_job.size() + spec.checkpoint->restore_path.size()
                       : 0},
      {"spec.dataCache",
       spec.data_cache ? spec.data_cache->sub_path.size() + spec.data_cache->size_limit.size() : 0},
      {spec.typed_fields.empty() ? "spec.worker.template" : "spec.worker", of_worker},
      {"spec.launcher.template", spec.launcher_template_json.size()},
      {"spec.checkpoint.volume", spec.checkpoint ? spec.checkpoint->volume_json.size() : 0},
      {"spec.dataCache.from", spec.data_cache ? spec.data_cache->from_json.size() : 0},
      {"spec.mpi.extraArgs", BytesOf(spec.mpi_extra_args)},
      {"spec.mpi.passEnv", BytesOf(spec.mpi_pass_env)}};
  std::size_t bytes = 0;
  for (const auto& field : fields) bytes += field.second;
  if (bytes <= kMaxTextBytes) return;
  const auto* longest = std::max_element(
      std::begin(fields), std::end(fields),
      [](const auto& one, const auto& other) { return one.second < other.second; });
  spec.longest_text = longest->first;
  LeaveTextsOut(TrainingJobSpec::Texts::kTooLong, spec);
}

}  // namespace ringmaster::api
