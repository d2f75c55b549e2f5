#pragma once

// Trains the recognition of many classes. A replicated backbone (backbones/) computes embeddings
// of images, and a margin softmax compares them with class centres, which are sharded over the
// ranks (partial_fc/). The held-out accuracy does not need centres: it is the share of triplets
// in which two images of a class are closer to each other than to an image of another class.

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
  std::string device = "cpu";                 // device of computation and table (LibTorch's name)
};

std::unique_ptr<Workload> MakePartialFc(LabelledData data, PartialFcOptions options);

}  // namespace ringmaster::trainer
