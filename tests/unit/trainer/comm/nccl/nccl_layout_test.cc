// Compares the declarations of NCCL's types in nccl_api.h with the declarations in the header of
// each version of NCCL, which layouts.py has recorded.

#include <cstddef>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/paths.h"
#include "worker/trainer/comm/nccl/nccl_api.h"

namespace ringmaster::trainer {
namespace {

const std::map<std::string, int64_t>& Ours() {
  const NcclConfig config;
  static const std::map<std::string, int64_t> ours{
      {"magic", config.magic},
      {"sizeof ncclUniqueId", sizeof(NcclUniqueId)},
      {"offsetof size", offsetof(NcclConfig, size)},
      {"offsetof magic", offsetof(NcclConfig, magic)},
      {"offsetof version", offsetof(NcclConfig, version)},
      {"offsetof blocking", offsetof(NcclConfig, blocking)},
      {"offsetof cgaClusterSize", offsetof(NcclConfig, cga_cluster_size)},
      {"offsetof minCTAs", offsetof(NcclConfig, min_ctas)},
      {"offsetof maxCTAs", offsetof(NcclConfig, max_ctas)},
      {"offsetof netName", offsetof(NcclConfig, net_name)},
      {"offsetof splitShare", offsetof(NcclConfig, split_share)},
      {"NCCL_CONFIG_UNDEF_INT", NcclConfig::kUndefined},
      {"ncclSuccess", static_cast<int>(NcclResult::kSuccess)},
      {"ncclUnhandledCudaError", static_cast<int>(NcclResult::kUnhandledCudaError)},
      {"ncclSystemError", static_cast<int>(NcclResult::kSystemError)},
      {"ncclInternalError", static_cast<int>(NcclResult::kInternalError)},
      {"ncclInvalidArgument", static_cast<int>(NcclResult::kInvalidArgument)},
      {"ncclInvalidUsage", static_cast<int>(NcclResult::kInvalidUsage)},
      {"ncclRemoteError", static_cast<int>(NcclResult::kRemoteError)},
      {"ncclInProgress", static_cast<int>(NcclResult::kInProgress)},
      {"ncclInt8", static_cast<int>(NcclType::kInt8)},
      {"ncclUint8", static_cast<int>(NcclType::kUint8)},
      {"ncclInt32", static_cast<int>(NcclType::kInt32)},
      {"ncclUint32", static_cast<int>(NcclType::kUint32)},
      {"ncclInt64", static_cast<int>(NcclType::kInt64)},
      {"ncclUint64", static_cast<int>(NcclType::kUint64)},
      {"ncclFloat16", static_cast<int>(NcclType::kFloat16)},
      {"ncclFloat32", static_cast<int>(NcclType::kFloat32)},
      {"ncclFloat64", static_cast<int>(NcclType::kFloat64)},
      {"ncclBfloat16", static_cast<int>(NcclType::kBFloat16)},
      {"ncclSum", static_cast<int>(NcclOp::kSum)},
      {"ncclProd", static_cast<int>(NcclOp::kProduct)},
      {"ncclMax", static_cast<int>(NcclOp::kMax)},
      {"ncclMin", static_cast<int>(NcclOp::kMin)},
      {"NCCL_SHRINK_DEFAULT", static_cast<int>(NcclShrinkMode::kDefault)},
      {"NCCL_SHRINK_ABORT", static_cast<int>(NcclShrinkMode::kAbort)},
      {"NCCL_REVOKE_DEFAULT", 0}};
  return ours;
}

std::vector<std::string> Columns(const std::string& line) {
  std::istringstream fields(line);
  std::vector<std::string> columns;
  for (std::string column; std::getline(fields, column, '\t');) columns.push_back(column);
  return columns;
}

TEST(NcclLayout, IsThatOfEveryVersion) {
  std::ifstream table(FromBuild(NCCL_LAYOUTS));
  std::string line;
  std::getline(table, line);
  const std::vector<std::string> names = Columns(line);
  ASSERT_EQ(names.size(), Ours().size() + 1) << "all that is relied on";
  int versions = 0;
  for (; std::getline(table, line); ++versions) {
    const std::vector<std::string> row = Columns(line);
    ASSERT_EQ(row.size(), names.size()) << line;
    for (std::size_t i = 1; i < row.size(); ++i) {
      ASSERT_TRUE(Ours().contains(names[i])) << names[i];
      // This version of NCCL lacks macros of later versions.
      if (row[i] == "-" && names[i].starts_with("NCCL_")) continue;
      EXPECT_EQ(std::to_string(Ours().at(names[i])), row[i]) << names[i] << " of " << row[0];
    }
  }
  EXPECT_GE(versions, 25);
}

}  // namespace
}  // namespace ringmaster::trainer
