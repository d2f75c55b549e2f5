#pragma once

// Compresses gradients on a GPU. Used by Gpu, which gives the codec to the session.

#include <memory>

#include "worker/trainer/compression/row_codec.h"

namespace ringmaster::trainer {

// Creates the codec for GPU `number`; returns null for kNone. kUnavailable: the GPU does not work.
Result<std::unique_ptr<RowCodec>> MakeCudaRowCodec(int number, Compression compression);

}  // namespace ringmaster::trainer
