#include "worker/trainer/library/check_inputs.h"

#include <cstddef>
#include <map>
#include <string>

#include "common/control/pod_contract.h"
#include "worker/trainer/environment/rank_environment.h"

namespace ringmaster {
namespace {

Error Refused(const std::string& text) { return {ErrorKind::kInvalid, text}; }

Result<void> CheckTensor(const at::Tensor& tensor, at::Device device, const std::string& name) {
  if (!tensor.defined()) return Refused(name + " is not defined");
  if (tensor.scalar_type() != at::kFloat) return Refused(name + " is not float32");
  if (tensor.device() != device) return Refused(name + " is not on " + device.str());
  return {};
}

Result<void> CheckFlat(const at::Tensor& tensor, at::Device device, const std::string& name) {
  if (auto fits = CheckTensor(tensor, device, name); !fits.ok()) return fits;
  if (!tensor.is_non_overlapping_and_dense()) return Refused(name + " has gaps in its memory");
  return {};
}

}  // namespace

Result<void> CheckInputs(const std::vector<at::Tensor>& parameters,
                         const Elastic::Options& options) {
  if (parameters.empty()) return Refused("no parameters were given");
  if (options.steps < 1) return Refused("steps must be at least 1");
  if (options.global_batch < 1) return Refused("global_batch must be at least 1");
  if (options.timeout && options.timeout->count() < 1)
    return Refused("timeout must be at least 1 ms");
  const int ranks = trainer::NumberIn(control::kEnvMaxRanks);
  auto enough = trainer::CheckGlobalBatch("global_batch", options.global_batch, ranks);
  if (!enough.ok()) return enough;
  if (!parameters.front().defined()) return Refused("parameter 0 is not defined");
  const at::Device device = parameters.front().device();
  std::map<const void*, std::string> names;  // by the address of the values
  const auto once = [&names](const at::Tensor& tensor, const std::string& name) -> Result<void> {
    const auto [first, added] = names.emplace(tensor.data_ptr(), name);
    if (added || tensor.numel() == 0) return {};
    return Refused(name + " is " + first->second + ": pass each tensor once");
  };
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string name = "parameter " + std::to_string(i);
    if (auto fits = CheckTensor(parameters[i], device, name); !fits.ok()) return fits;
    if (auto fits = once(parameters[i], name); !fits.ok()) return fits;
    if (!parameters[i].requires_grad()) return Refused(name + " does not require a gradient");
  }
  for (std::size_t i = 0; i < options.state.size(); ++i) {
    const std::string name = "state tensor " + std::to_string(i);
    if (auto fits = CheckFlat(options.state[i], device, name); !fits.ok()) return fits;
    if (auto fits = once(options.state[i], name); !fits.ok()) return fits;
  }
  for (std::size_t i = 0; i < options.buffers.size(); ++i) {
    const std::string name = "buffer " + std::to_string(i);
    if (auto fits = CheckFlat(options.buffers[i], device, name); !fits.ok()) return fits;
    if (auto fits = once(options.buffers[i], name); !fits.ok()) return fits;
    if (options.buffers[i].requires_grad()) return Refused(name + " requires a gradient");
  }
  return {};
}

}  // namespace ringmaster
