#include "worker/bench/collectives/measurement.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>

#include <ATen/ATen.h>

#include "worker/bench/collectives/check_data.h"

namespace ringmaster::bench {
namespace {

using trainer::Elements;

template <typename T>
Result<T> Agreed(Backend& backend, T mine, trainer::ElementType type, trainer::ReduceOp op) {
  const Result<void> agreed =
      backend.Agree(Elements(reinterpret_cast<std::byte*>(&mine), 1, type), op);
  if (!agreed.ok()) return agreed.error();
  return mine;
}

// Combines the numbers of all ranks into one number.
Result<double> Averaged(Backend& backend, double mine, Average average) {
  const auto by = [&](double value, trainer::ReduceOp op) {
    return Agreed(backend, value, trainer::ElementType::kFloat64, op);
  };
  switch (average) {
    case Average::kRank0:
      return by(backend.rank() == 0 ? mine : 0, trainer::ReduceOp::kSum);
    case Average::kMean:
      return by(mine / backend.size(), trainer::ReduceOp::kSum);
    case Average::kLeast:
      return by(mine, trainer::ReduceOp::kMin);
    case Average::kMost:
      return by(mine, trainer::ReduceOp::kMax);
  }
  return mine;
}

at::Tensor Zeros(std::byte* memory, std::size_t bytes, const std::string& device) {
  const auto size = static_cast<int64_t>(bytes);
  const auto options = at::TensorOptions().dtype(at::kByte).device(at::Device(device));
  return memory == nullptr ? at::zeros({size}, options)
                           : at::from_blob(memory, {size}, options).zero_();
}

// The send and receive buffers. The constructor zeroes them, so that times include no page faults.
class Buffers {
 public:
  Buffers(std::size_t bytes, const std::string& device, std::array<std::byte*, 2> memory = {})
      : send_(Zeros(memory[0], bytes, device)), receive_(Zeros(memory[1], bytes, device)) {}

  Call CallOf(const Sweepings& sweep, const Counts& counts, const Row& row, int rank,
              bool in_place) const {
    auto* const send = static_cast<std::byte*>(send_.data_ptr());
    auto* const receive = static_cast<std::byte*>(receive_.data_ptr());
    Call call{.collective = sweep.collective,
              .op = row.op,
              .root = sweep.root,
              .send = Elements(send, counts.send, row.type),
              .receive = Elements(receive, counts.receive, row.type)};
    if (!in_place) return call;
    // In place, the smaller buffer is this rank's part of the larger one.
    const std::size_t piece = SizeOf(row.type) * counts.unit * static_cast<std::size_t>(rank);
    call.receive.data = send + (counts.receive < counts.send ? piece : 0);
    call.send.data = send + (counts.send < counts.receive ? piece : 0);
    return call;
  }

  // Copies both buffers from another device.
  void CopyFrom(const Buffers& other) {
    send_.copy_(other.send_);
    receive_.copy_(other.receive_);
  }

 private:
  at::Tensor send_;
  at::Tensor receive_;
};

// The measured buffers, and host copies in which they are filled and checked.
class Memory {
 public:
  Memory(std::size_t bytes, const Backend& backend)
      : measured_(bytes, backend.device(), backend.registered()) {
    if (backend.device() != "cpu") host_.emplace(bytes, "cpu");
  }

  const Buffers& measured() const { return measured_; }
  const Buffers& on_host() const { return host_ ? *host_ : measured_; }
  void Push() {
    if (host_) measured_.CopyFrom(*host_);
  }
  void Pull() {
    if (host_) host_->CopyFrom(measured_);
  }

 private:
  Buffers measured_;
  std::optional<Buffers> host_;  // not set: measured_ is in host memory
};

class Measuring {
 public:
  Measuring(Backend& backend, const Sweepings& sweep, const Clock& clock)
      : backend_(backend),
        sweep_(sweep),
        clock_(clock),
        most_bytes_(*std::ranges::max_element(sweep.sizes)),
        memory_(static_cast<std::size_t>(most_bytes_), backend) {}

  // Returns an empty vector if `bytes` is too small for one element.
  Result<std::vector<Row>> RowOf(int64_t bytes, trainer::ElementType type, trainer::ReduceOp op) {
    const Counts counts =
        CountsOf(sweep_.collective, static_cast<std::size_t>(bytes), SizeOf(type), backend_.size());
    if (counts.most() == 0) return std::vector<Row>();
    Row row{.bytes = static_cast<int64_t>(counts.most() * SizeOf(type)),
            .count = counts.unit,
            .type = type,
            .op = op,
            .out_of_place = {},
            .in_place = {}};
    for (const bool in_place : {false, true}) {
      const auto call_on = [&](const Buffers& buffers) {
        return buffers.CallOf(sweep_, counts, row, backend_.rank(), in_place);
      };
      const bool check = sweep_.check && (!in_place || WorksInPlace(sweep_.collective));
      const Result<Timing> timing =
          Time(call_on(memory_.measured()), call_on(memory_.on_host()), row.bytes, check);
      if (!timing.ok()) return timing.error();
      (in_place ? row.in_place : row.out_of_place) = *timing;
    }
    return std::vector<Row>{row};
  }

 private:
  Result<Timing> Time(const Call& call, const Call& on_host, int64_t bytes, bool check) {
    Timing timing;
    const CheckedCall checked{.call = on_host, .rank = backend_.rank(), .ranks = backend_.size()};
    Fill(checked);
    memory_.Push();
    if (Result<void> warm = Repeat(call, bytes, sweep_.warm_up); !warm.ok()) return warm.error();
    if (Result<void> met = backend_.Barrier(); !met.ok()) return met.error();
    const auto begin = clock_.Now();
    if (Result<void> run = Repeat(call, bytes, sweep_.iterations); !run.ok()) return run.error();
    const std::chrono::duration<double, std::micro> took = clock_.Now() - begin;
    const Result<double> micros =
        Averaged(backend_, took.count() / sweep_.iterations / sweep_.aggregated, sweep_.average);
    if (!micros.ok()) return micros.error();
    timing.micros = *micros;
    timing.algorithm = static_cast<double>(bytes) / timing.micros / 1e3;
    timing.bus = timing.algorithm * BusFactor(sweep_.collective, backend_.size());
    if (!check) return timing;

    // Fill the buffers again: in place, the timed iterations used earlier results as their input.
    Fill(checked);
    memory_.Push();
    if (Result<void> run = backend_.Start({&call, 1}); !run.ok()) return run.error();
    if (Result<void> done = backend_.Finish(); !done.ok()) return done.error();
    memory_.Pull();
    const Result<int64_t> wrong = Agreed(backend_, CountWrong(checked),
                                         trainer::ElementType::kInt64, trainer::ReduceOp::kSum);
    if (!wrong.ok()) return wrong.error();
    timing.wrong = *wrong;
    return timing;
  }

  // `bytes` is the size of the larger buffer of the call.
  Result<void> Repeat(const Call& call, int64_t bytes, int iterations) {
    const int64_t places = most_bytes_ / bytes;
    int64_t number = 0;
    std::vector<Call> together(static_cast<std::size_t>(sweep_.aggregated), call);
    for (int i = 0; i < iterations; ++i) {
      for (Call& each : together) {
        const int64_t shift = bytes * (number++ % places);
        each.send.data = call.send.data + shift;
        each.receive.data = call.receive.data + shift;
      }
      if (Result<void> started = backend_.Start(together); !started.ok()) return started;
      if (sweep_.blocking == Blocking::kNo) continue;
      if (Result<void> done = backend_.Finish(); !done.ok()) return done;
      if (sweep_.blocking == Blocking::kWait) continue;
      if (Result<void> met = backend_.Barrier(); !met.ok()) return met;
    }
    return backend_.Finish();
  }

  Backend& backend_;
  const Sweepings& sweep_;
  const Clock& clock_;
  const int64_t most_bytes_;
  Memory memory_;
};

}  // namespace

Result<std::vector<Row>> Measure(Backend& backend, const Sweepings& sweep, const Clock& clock,
                                 const std::function<void(const Row&)>& report) {
  std::vector<Row> rows;
  Measuring measuring(backend, sweep, clock);
  for (const trainer::ElementType type : sweep.types) {
    for (const trainer::ReduceOp op : sweep.ops) {
      for (const int64_t bytes : sweep.sizes) {
        const Result<std::vector<Row>> row = measuring.RowOf(bytes, type, op);
        if (!row.ok()) return row.error();
        for (const Row& each : *row) report(each);
        rows.insert(rows.end(), row->begin(), row->end());
      }
    }
  }
  return rows;
}

}  // namespace ringmaster::bench
