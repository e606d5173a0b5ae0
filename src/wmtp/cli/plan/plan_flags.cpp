#include "wmtp/cli/plan/plan_flags.h"

#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/core/error.h"
#include "wmtp/run/plan/sizing/preset_request.h"

namespace wmtp::cli {

config::LoadRequest PlanFlags::request() const {
  if (!config.file.empty()) {
    config::LoadRequest request = config.request();
    request.check_paths = !no_check_paths;
    request.world_size = world_size;
    return request;
  }
  if (model.empty())
    throw Error(ErrorKind::config, "plan", "neither --config nor --model is given",
                "name a configuration, or a model: wmtp plan --model qwen3-0.6b --gpu h200");
  config::LoadRequest request =
      run::preset_request({model, batch_size.value_or(1), max_length.value_or(2048), lora_rank});
  if (!config.defaults.empty()) request.defaults = config.defaults;
  request.overrides.insert(request.overrides.end(), config.overrides.begin(),
                           config.overrides.end());
  request.env = comm::process_environment();
  request.world_size = world_size;
  return request;
}

}  // namespace wmtp::cli
