#include "worker/trainer/gpu/kernel_norm.h"

#include <utility>

#include "worker/trainer/gpu/kernel_shard_step.h"
#include "worker/trainer/kernels/batch_norm.h"

namespace ringmaster::trainer {
namespace {

class ByKernels final : public NormArithmetic {
 public:
  explicit ByKernels(KernelDevice device) : device_(std::move(device)) {}

  int64_t Scratch(const NormRows& rows) const override { return NormScratch(rows); }
  void Statistics(const NormRows& rows, const void* x, float* scratch,
                  const NormStatistics& to) const override {
    CheckLaunch(LaunchNormStatistics(rows, x, scratch, to, device_.stream()),
                "computing means and variances");
  }
  void Normalise(const NormRows& rows, const NormParameters& parameters, const void* x,
                 const void* shortcut, void* y) const override {
    CheckLaunch(LaunchNormalise(rows, parameters, x, shortcut, y, device_.stream()),
                "normalising a batch");
  }
  void Backward(const NormRows& rows, const NormParameters& parameters, const void* x,
                const void* y_gradient, float* scratch, const NormGradients& to,
                void* x_gradient) const override {
    CheckLaunch(LaunchNormBackward(rows, parameters, x, y_gradient, scratch, to, x_gradient,
                                   device_.stream()),
                "computing the gradients of a batch normalisation");
  }

 private:
  const KernelDevice device_;
};

}  // namespace

std::shared_ptr<const NormArithmetic> KernelNorm(KernelDevice device) {
  return std::make_shared<const ByKernels>(std::move(device));
}

}  // namespace ringmaster::trainer
