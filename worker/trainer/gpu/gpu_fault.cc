#include "worker/trainer/gpu/gpu_fault.h"

namespace ringmaster::trainer {
namespace {

// Values from driver_types.h, which builds without CUDA do not have.
constexpr int kDevicesUnavailable = 46;
constexpr int kNoDevice = 100;
constexpr int kEccUncorrectable = 214;
constexpr int kNvlinkUncorrectable = 220;
constexpr int kSystemNotReady = 802;
constexpr int kUnknown = 999;

}  // namespace

bool DeviceIsUnhealthy(int error) {
  return error == kDevicesUnavailable || error == kNoDevice || error == kEccUncorrectable ||
         error == kNvlinkUncorrectable || error == kSystemNotReady || error == kUnknown;
}

std::string GpuFaultText(const GpuFault& fault, const std::string& uuid) {
  return "the GPU " + (uuid.empty() ? "" : uuid + " ") +
         "of this rank is no longer usable: " + "CUDA reported \"" + fault.words + "\" (" +
         fault.name + ")";
}

}  // namespace ringmaster::trainer
