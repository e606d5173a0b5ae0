#include "fuzz/fuzz.h"
#include "wmtp/config/load.h"

namespace {

wmtp::config::ResolvedConfig load_text(std::string text) {
  wmtp::config::LoadRequest request;
  request.file = "stage.yaml";
  request.text = std::move(text);
  request.defaults = "none";
  request.check_paths = false;
  request.env = [](const std::string& name) {
    return name == "HOME" ? std::optional<std::string>("/users/me") : std::nullopt;
  };
  return wmtp::config::load_config(request);
}

}  // namespace

WMTP_FUZZ_TARGET(yaml) {
  using namespace wmtp;
  const config::ResolvedConfig read = load_text(std::string(fuzz::text_of(bytes)));
  fuzz::require(load_text(read.to_yaml()).hash() == read.hash(),
                "a configuration that does not come back");
}
