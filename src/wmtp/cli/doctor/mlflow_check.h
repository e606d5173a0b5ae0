// What `wmtp doctor --mlflow` says about the way to a tracking server.
#pragma once
#include <string>
#include <vector>

#include "wmtp/cli/doctor/check.h"
#include "wmtp/http/ca_bundle.h"

namespace wmtp::cli {

struct MlflowWishes {
  std::string uri;         // empty: none is set
  std::string experiment;  // empty: none is set
};

// One finding a line, in the order of the way there; it ends at the first that fails. Asks and
// writes nothing: the server is as before. BLOCKS for the network, about half a minute at most.
std::vector<Check> check_mlflow(const MlflowWishes& wishes, const http::Environment& env);

}  // namespace wmtp::cli
