#include "wmtp/cli/config_flags.h"

#include <filesystem>

#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/models/remote/file_systems.h"

namespace wmtp::cli {

void ConfigFlags::add_to(CLI::App& command, bool config_required) {
  command.add_option("--config", file, "The stage file (YAML)")->required(config_required);
  command.add_option(
      "--defaults", defaults,
      "Layer below it: a file or `none`; otherwise defaults.yaml beside it, in its parent "
      "folder, or the installed one");
  command.add_option("--override", overrides, "key.path=value, applied last; may be repeated")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
}

config::LoadRequest ConfigFlags::request() const {
  config::LoadRequest request;
  request.file = file;
  if (!defaults.empty()) request.defaults = defaults;
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  if (!ignored)
    request.installed_defaults =
        program.parent_path().parent_path() / "share/wmtp/configs/defaults.yaml";
  request.overrides = overrides;
  request.env = comm::process_environment();
  return request;
}

config::ResolvedConfig ConfigFlags::load() const {
  return load_for_process(request());
}

config::ResolvedConfig load_for_process(const config::LoadRequest& request) {
  config::ResolvedConfig resolved = config::load_config(request);
  models::use_s3_settings(resolved.config.storage.s3, request.env);
  return resolved;
}

}  // namespace wmtp::cli
