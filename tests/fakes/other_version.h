#pragma once

// What another version of ours would say: the same document with fields added that this build does
// not know, or without the fields that it can do without. For the tests of the rule of
// compatibility (common/control/README.md, "Versions").

#include <functional>
#include <string>

namespace ringmaster {

// With a field that nobody knows in each of its objects. REQUIRES: `document` is a JSON object.
std::string AsNewer(const std::string& document);

// Without every field that `understood` does not need.
std::string AsOlder(const std::string& document,
                    const std::function<bool(const std::string&)>& understood);

// A line of the agents' protocol as an older version says it. Of one thread.
std::string LineAsOlder(const std::string& line);

// A line of a type that this build does not know.
std::string UnknownLine();

}  // namespace ringmaster
