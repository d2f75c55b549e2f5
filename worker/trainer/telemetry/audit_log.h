#pragma once

// Writes a rank's audit log. From the logs of all ranks, ringmaster-audit (worker/audit) proves
// that no step was lost or repeated. Each line is a JSON object, written with one write(2):
//
//   {"world":{"term":1,"number":2,"rank":0,"size":3,"global_batch":64,"members":["pod/slot/start",…],
//             "adopted":{"epoch":[1,1],"step":40},"checksum":"16 hex digits"}}  on entering a world
//   "adopted" has "from":"checkpoint" or "snapshot" if no rank had a state, which means that later
//   steps were rolled back. Epoch [0, …]: the checkpoint is of another run. If gradients are
//   compressed, "residuals" states what happened to this rank's residuals of earlier steps: "none",
//   "kept", "taken-over" or "dropped" (compression/error_feedback.h).
//   {"begun":{"step":41,"epoch":[1,2],"rank":0,"samples":[0,21]}}  before the rank sends gradients
//   {"step":41,"epoch":[1,2],"rank":0,"samples":[0,21],"checksum":"…"}            after the update
//
// A rank writes "begun" before it sends any gradient of the step. So if any rank completed a step,
// the logs of all ranks of its world contain the step's "begun", even if a rank is killed between
// its last reduction and its next line.
//
// If part of the state is sharded, "world" also contains "sharded", the checksum of the whole
// sharded state, and the line of a step contains "part", the checksum of the rank's share. The sum
// of the ranks' "part" modulo 2^64 is the checksum of the whole.

#include <memory>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "worker/trainer/comm/world.h"
#include "worker/trainer/elastic/state_sync.h"
#include "worker/trainer/elastic/step_observers.h"
#include "worker/trainer/numeric/share.h"

namespace ringmaster::trainer {

// The environment variable that sets the folder of audit logs if the command line does not.
inline constexpr char kEnvAuditLog[] = "RINGMASTER_AUDIT_LOG";

// Not thread-safe. If the file cannot be written any more, a warning is logged once, and training
// continues without the audit log. The audit then detects that the end of the log is missing.
class AuditLog final : public StepAudit {
 public:
  // `path` is a file whose name ends in ".jsonl", a folder for a file that is named after the
  // rank's member (pod-slot-start.jsonl), or empty for no log. Creates the folder if it is missing.
  // kInvalid: the log cannot be written.
  static Result<AuditLog> Open(const std::string& path);
  AuditLog() = default;
  AuditLog(AuditLog&& other) noexcept;
  AuditLog& operator=(AuditLog&& other) noexcept;
  ~AuditLog() override;

  bool on() const override { return !path_.empty(); }

  void Entered(const World& world, int64_t global_batch, const Adopted& adopted,
               const std::string& residuals = "") override;
  void Begun(const World& world, int64_t step, Share samples) override;
  void Applied(const World& world, int64_t step, Share samples, uint64_t checksum,
               std::optional<uint64_t> part = {}) override;

 private:
  void OpenFile(const World& world);
  void Write(const std::string& line);
  void End(const char* doing);

  std::string path_;
  int file_ = -1;
};

}  // namespace ringmaster::trainer
