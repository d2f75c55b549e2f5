#include "worker/trainer/environment/rank_failure.h"

#include "common/control/exit_codes.h"

namespace ringmaster::trainer {

RankFailure FailureOf(const Error& error, SessionEnd end, const std::optional<GpuFault>& fault,
                      const std::string& uuid) {
  if (fault) {
    const std::string text = GpuFaultText(*fault, uuid);
    return {error.message == text ? text : text + "; " + error.message,
            DeviceIsUnhealthy(fault->error) ? control::kExitDeviceUnhealthy : control::kExitFailed};
  }
  if (end == SessionEnd::kPeerLost) return {error.message, control::kExitPeerLost};
  const bool invalid = error.kind == ErrorKind::kInvalid;
  return {error.message, invalid ? control::kExitUserError : control::kExitFailed};
}

}  // namespace ringmaster::trainer
