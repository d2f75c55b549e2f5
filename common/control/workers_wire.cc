#include "common/control/workers_wire.h"

#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace ringmaster::control {
namespace {

// Returns the Pod's name without its index; the whole name if it does not end with the index.
std::string_view BeforeIndex(const DesiredWorker& worker) {
  std::string_view name = worker.pod;
  const std::string index = std::to_string(worker.index);
  if (name.ends_with(index)) name.remove_suffix(index.size());
  return name;
}

bool ReadRow(const Json& row, const std::string& pods, const Json& nodes, DesiredWorker& worker) {
  if (!row.is_array() || row.size() < 3) return false;
  const auto* pod_uid = row[0].get_ptr<const std::string*>();
  const auto index = IntegerIn(row[1], -1, std::numeric_limits<int>::max());
  const auto node = IntegerIn(row[2], -1, std::ssize(nodes) - 1);
  if (pod_uid == nullptr || !index || !node) return false;
  worker.pod_uid = *pod_uid;
  worker.index = static_cast<int>(*index);
  worker.pod = pods + std::to_string(*index);
  if (*node >= 0) {
    const auto* name = nodes[static_cast<std::size_t>(*node)].get_ptr<const std::string*>();
    if (name == nullptr) return false;
    worker.node = *name;
  }
  if (row.size() == 3) return true;
  const auto* pod = row[3].get_ptr<const std::string*>();
  if (pod != nullptr) worker.pod = *pod;
  return pod != nullptr;
}

}  // namespace

Json InRows::Write(const std::vector<DesiredWorker>& workers) const {
  const std::string pods(workers.empty() ? std::string_view() : BeforeIndex(workers.front()));
  Json nodes = Json::array();
  Json rows = Json::array();
  std::map<std::string_view, std::size_t> places;
  for (const DesiredWorker& worker : workers) {
    Json row = {worker.pod_uid, worker.index, -1};
    if (!worker.node.empty()) {
      const auto [place, fresh] = places.try_emplace(worker.node, nodes.size());
      if (fresh) nodes.push_back(worker.node);
      row[2] = place->second;
    }
    if (worker.pod != pods + std::to_string(worker.index)) row.push_back(worker.pod);
    rows.push_back(std::move(row));
  }
  return {{"pods", pods}, {"nodes", std::move(nodes)}, {"rows", std::move(rows)}};
}

std::string InRows::Read(const Json& value, std::vector<DesiredWorker>& workers) const {
  workers.clear();
  if (!value.is_object()) return "expected an object";
  const auto pods = value.find("pods");
  const auto nodes = value.find("nodes");
  const auto rows = value.find("rows");
  if (pods == value.end() || !pods->is_string() || nodes == value.end() || !nodes->is_array() ||
      rows == value.end() || !rows->is_array()) {
    return "expected pods, nodes and rows";
  }
  if (rows->size() > static_cast<std::size_t>(kMaxRanks)) return "has too many rows";
  workers.resize(rows->size());
  for (std::size_t i = 0; i < rows->size(); ++i) {
    if (!ReadRow((*rows)[i], pods->get_ref<const std::string&>(), *nodes, workers[i])) {
      return "has a malformed row";
    }
  }
  return {};
}

}  // namespace ringmaster::control
