#pragma once

// The folder that a data cache fills, and the mark in it that says how far it is: a copy counts
// only once the mark says that it is complete, whatever was killed when. Used by fill.h.
//
//   empty ── Begin ─► filling ── Complete ─► complete; Begin from any of them begins anew, but a
//   folder with anything in it and no mark is somebody else's, and is left alone.

#include <filesystem>
#include <string>

#include "common/base/result.h"

namespace ringmaster::agent {

class CacheFolder {
 public:
  // `source` names what the folder is to hold: another one's copy does not count.
  CacheFolder(std::filesystem::path folder, const std::filesystem::path& source);

  bool IsComplete() const;

  // Empties it and marks it as being filled. kForbidden, and nothing changed, where it holds what
  // is not ours.
  Result<void> Begin() const;
  Result<void> Complete() const;

  const std::filesystem::path& path() const { return folder_; }

 private:
  Result<void> Mark(const std::string& text) const;

  const std::filesystem::path folder_;
  const std::string complete_;  // the mark's text
};

}  // namespace ringmaster::agent
