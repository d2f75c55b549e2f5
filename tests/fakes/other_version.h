#pragma once

// Converts a document to the form of another version: adds fields that this build does not know, or
// removes the optional fields. Used by the tests of the compatibility rules
// (common/control/README.md, "Versions").

#include <functional>
#include <string>

namespace ringmaster {

// Adds an unknown field to each object in `document`. REQUIRES: `document` is a JSON object.
std::string AsNewer(const std::string& document);

// Removes every field without which `understood` still accepts the document.
std::string AsOlder(const std::string& document,
                    const std::function<bool(const std::string&)>& understood);

// Converts a line of the agents' protocol to an older version. Not thread-safe.
std::string LineAsOlder(const std::string& line);

// Returns a line with a message type that this build does not know.
std::string UnknownLine();

}  // namespace ringmaster
