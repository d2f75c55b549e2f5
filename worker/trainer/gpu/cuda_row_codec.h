#pragma once

#include <memory>

#include "worker/trainer/compression/row_codec.h"

namespace ringmaster::trainer {

// For GPU `number`; null for kNone. kUnavailable: the GPU does not work, in CUDA's words.
Result<std::unique_ptr<RowCodec>> MakeCudaRowCodec(int number, Compression compression);

}  // namespace ringmaster::trainer
