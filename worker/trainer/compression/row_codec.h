#pragma once

// The interface that encodes and decodes gradients and stores their residuals, implemented for
// hosts here and for GPUs in gpu/cuda_row_codec.cc. Created once per process; used by
// compressed_reducer.cc and error_feedback.cc. On a GPU, calls only queue work in order on a stream
// of the codec, so the memory that they use must stay valid until Finish().

#include <cstddef>
#include <memory>
#include <span>

#include "common/base/result.h"
#include "worker/trainer/comm/store.h"
#include "worker/trainer/compression/codec.h"

namespace ringmaster::trainer {

// Thread-safety: any thread may call Computed() and Allocate(); only one thread at a time may call
// the others. Errors are those of the device, which is unusable after an error.
class RowCodec {
 public:
  // REQUIRES: `compression` is not kNone.
  explicit RowCodec(Compression compression) : compression_(compression) {}
  virtual ~RowCodec() = default;

  Compression compression() const { return compression_; }
  std::size_t EncodedBytes(std::size_t count) const {
    return trainer::EncodedBytes(compression_, count);
  }

  // Allocates zeroed memory on the device of the gradients. If memory is exhausted, throws the same
  // exception as allocating a tensor or vector there.
  virtual std::shared_ptr<std::byte> Allocate(std::size_t bytes) = 0;

  // Returns a mark after the work that the calling thread has queued so far.
  using Mark = std::shared_ptr<void>;
  virtual Result<Mark> Computed() = 0;

  // Call on a thread before it uses this codec and communicators. The communicators' operations
  // then start after the work of earlier calls of this codec.
  virtual Result<void> Attach() = 0;
  // Makes later operations start after `mark`.
  virtual Result<void> StartAfter(const Mark& mark) = 0;

  // codec.h documents these functions.
  virtual Result<void> Encode(std::span<const float> values, std::span<const float> carried,
                              std::span<float> left, std::span<std::byte> encoded) = 0;
  virtual Result<void> Decode(std::span<const std::byte> encoded, std::span<float> values) = 0;
  virtual Result<void> DecodeAdd(std::span<const std::byte> encoded, std::span<float> values) = 0;
  // Computes values[i] += carried[i].
  virtual Result<void> Add(std::span<const float> carried, std::span<float> values) = 0;
  virtual Result<void> Zero(std::span<float> values) = 0;

  // Blocks until all requested work has ended. kTimeout: it has not ended by `deadline`.
  virtual Result<void> Finish(Deadline deadline) = 0;
  // Waits until no requested operation accesses memory. If the wait fails on a GPU, ends the
  // process, because late writes could look like gradients of a later step.
  virtual void Quiesce() = 0;

 private:
  const Compression compression_;
};

// Returns null for kNone.
std::unique_ptr<RowCodec> MakeHostRowCodec(Compression compression);

// Memory of a codec that grows on demand. Its contents are lost when it grows.
class RowMemory {
 public:
  std::span<std::byte> Bytes(RowCodec& codec, std::size_t bytes);
  std::span<float> Floats(RowCodec& codec, std::size_t count);

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace ringmaster::trainer
