// Fuzzes the IDX parsers: any bytes must give an error, or as many pixels as the header says, or
// labels below the number of classes.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "worker/trainer/data/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  namespace trainer = ringmaster::trainer;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto images = trainer::ParseIdxImages(bytes, "fuzz");
  if (images.ok() && images->pixels.size() !=
                         static_cast<std::size_t>(images->count * images->rows * images->columns)) {
    std::abort();
  }
  const auto labels = trainer::ParseIdxLabels(bytes, "fuzz", 10);
  if (labels.ok()) {
    for (const uint8_t label : *labels) {
      if (label >= 10) std::abort();
    }
  }
  return 0;
}
