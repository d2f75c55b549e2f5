#include "worker/trainer/train/heap.h"

#include <malloc.h>

namespace ringmaster::trainer {

void KeepFreedMemory() {
  constexpr int kAlways = 1 << 30;  // bytes
  mallopt(M_MMAP_THRESHOLD, kAlways);
  mallopt(M_TRIM_THRESHOLD, kAlways);
  mallopt(M_TOP_PAD, 64 << 20);
}

}  // namespace ringmaster::trainer
