#pragma once

// Recognition of a large number of classes: a replicated backbone (backbones/) from images to
// embeddings, and a margin softmax over class centres that are sharded over the ranks
// (partial_fc/). The held-out accuracy does not need centres: it is the share of triples (two
// images of one class, one of another) in which the images of the same class are closer.

#include <cstdint>
#include <memory>
#include <string>

#include "worker/trainer/data/labelled_images.h"
#include "worker/trainer/numeric/precision.h"
#include "worker/trainer/partial_fc/centre_table.h"
#include "worker/trainer/workloads/workload.h"

namespace ringmaster::trainer {

struct PartialFcOptions {
  uint64_t seed = 1;
  int64_t global_batch = 64;
  int loader_threads = 1;                     // number of threads that assemble batches ahead
  std::string backbone = "r50";               // one of BackboneNames()
  Precision precision = Precision::kFloat32;  // precision of the backbone
  partial_fc::TableOptions table;             // head.classes is set from the data
  std::string device = "cpu";                 // as LibTorch names it; the table is on it, too
};

std::unique_ptr<Workload> MakePartialFc(LabelledData data, PartialFcOptions options);

}  // namespace ringmaster::trainer
