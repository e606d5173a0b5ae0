#include "wmtp/models/saved_config.h"

namespace wmtp::models {

config::ResolvedConfig load_saved_config(const std::string& saved_yaml,
                                         const config::Environment& environment) {
  config::LoadRequest request;
  request.file = "config.yaml of the checkpoint";
  request.text = saved_yaml;
  request.defaults = "none";
  request.env = environment;
  request.check_paths = false;
  request.check_available = false;
  return config::load_config(request);
}

}  // namespace wmtp::models
