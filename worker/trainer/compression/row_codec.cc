#include "worker/trainer/compression/row_codec.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace ringmaster::trainer {
namespace {

// A codec on the host: all work is complete when a call returns.
class HostRowCodec final : public RowCodec {
 public:
  using RowCodec::RowCodec;

  std::shared_ptr<std::byte> Allocate(std::size_t bytes) override {
    auto memory = std::make_shared<std::vector<std::byte>>(bytes);
    return {memory, memory->data()};
  }

  Result<Mark> Computed() override { return Mark(); }
  Result<void> Attach() override { return {}; }
  Result<void> StartAfter(const Mark&) override { return {}; }

  Result<void> Encode(std::span<const float> values, std::span<const float> carried,
                      std::span<float> left, std::span<std::byte> encoded) override {
    trainer::Encode(compression(), values, carried, left, encoded);
    return {};
  }
  Result<void> Decode(std::span<const std::byte> encoded, std::span<float> values) override {
    trainer::Decode(compression(), encoded, values);
    return {};
  }
  Result<void> DecodeAdd(std::span<const std::byte> encoded, std::span<float> values) override {
    trainer::DecodeAdd(compression(), encoded, values);
    return {};
  }
  Result<void> Add(std::span<const float> carried, std::span<float> values) override {
    std::ranges::transform(values, carried, values.begin(), std::plus<>());
    return {};
  }
  Result<void> Zero(std::span<float> values) override {
    std::ranges::fill(values, 0.0F);
    return {};
  }

  Result<void> Finish(Deadline) override { return {}; }
  void Quiesce() override {}
};

}  // namespace

std::unique_ptr<RowCodec> MakeHostRowCodec(Compression compression) {
  if (compression == Compression::kNone) return nullptr;
  return std::make_unique<HostRowCodec>(compression);
}

std::span<std::byte> RowMemory::Bytes(RowCodec& codec, std::size_t bytes) {
  if (bytes > bytes_) {
    memory_.reset();
    bytes_ = 0;
    memory_ = codec.Allocate(bytes);
    bytes_ = bytes;
  }
  return {memory_.get(), bytes};
}

std::span<float> RowMemory::Floats(RowCodec& codec, std::size_t count) {
  const std::span<std::byte> bytes = Bytes(codec, count * sizeof(float));
  return {reinterpret_cast<float*>(bytes.data()), count};
}

}  // namespace ringmaster::trainer
