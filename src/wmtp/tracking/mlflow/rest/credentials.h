// The address of a tracking server as users write it, and what the variables MLFLOW_TRACKING_* say
// about the way there.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/http/client.h"

namespace wmtp::tracking::mlflow {

// Error config where it is no http(s) URL, where it is one of the other kinds that MLflow knows (a
// folder, a database, Databricks), and where it has user info or a query. Its path is the prefix of
// all calls, without a "/" at its end: "" or "/prefix".
http::Url parse_tracking_uri(std::string_view uri);

struct Credentials {
  std::string authorization;  // value of the header; empty: there are none
  // What no text may show, should a server repeat it.
  std::vector<std::string> secrets;
};

// MLFLOW_TRACKING_TOKEN, else MLFLOW_TRACKING_USERNAME and _PASSWORD. Error config for one of the
// two without the other, or for a token that cannot stand in a header.
Credentials read_credentials(const http::Environment& env);

// MLFLOW_TRACKING_INSECURE_TLS and MLFLOW_TRACKING_SERVER_CERT_PATH over what `options` has. Error
// config for both at once, no truth value, no readable file.
void apply_tls_variables(http::ClientOptions& options);

}  // namespace wmtp::tracking::mlflow
