#include "wmtp/cli/launcher/batch_script.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "wmtp/cli/launcher/batch_templates.h"
#include "wmtp/core/error.h"
#include "wmtp/core/printable.h"
#include "wmtp/core/unique_fd.h"

namespace wmtp::cli {
namespace {

std::string_view template_of(const BatchRequest& request) {
  if (request.requeues) return kRequeueTemplate;
  return request.num_nodes == 1 ? kOneNodeTemplate : kSeveralNodesTemplate;
}

bool has_flag(const std::vector<std::string>& command, std::string_view flag) {
  return std::any_of(command.begin(), command.end(), [&](const std::string& word) {
    return word == flag || word.starts_with(std::string(flag) + "=");
  });
}

bool is_on_cpu(const std::vector<std::string>& command) {
  for (std::size_t i = 0; i < command.size(); ++i)
    if (command[i] == "--device=cpu" ||
        (command[i] == "--device" && i + 1 < command.size() && command[i + 1] == "cpu"))
      return true;
  return false;
}

// What was typed is meant as it stands, which shellcheck would ask about.
std::string literally(std::string_view typed) {
  const bool looks_expanded = typed.find_first_of("$`") != std::string_view::npos;
  return looks_expanded ? "# shellcheck disable=SC2016  # not for this shell\n" : "";
}

// TRAIN=("$WMTP" train ...): what each rank runs. More flags may still follow the file's name.
std::string train_line(const BatchRequest& request) {
  std::string words;
  for (const std::string& word : request.command) words += " " + shell_word(word);
  if (!has_flag(request.command, "--resume")) words += " --resume auto";
  return fmt::format("{}TRAIN=(\"$WMTP\"{} \"$@\")\n", literally(words), words);
}

std::string head_of(const BatchRequest& request) {
  return fmt::format(
      "# {} {} of {} ranks each. Written by `wmtp launch --slurm`; submit it with sbatch, whose "
      "own "
      "options win over\n# the lines below. What follows the file's name goes to `wmtp train`.\n",
      request.num_nodes, request.num_nodes == 1 ? "node" : "nodes", request.ranks_per_node);
}

std::string exports_of(const BatchRequest& request) {
  std::string lines;
  for (const std::string& variable : request.environment) {
    const std::size_t equals = variable.find('=');
    const std::string value = shell_word(variable.substr(equals + 1));
    lines += fmt::format("{}export {}={}\n", literally(value), variable.substr(0, equals), value);
  }
  return lines;
}

// What stands in the place of a line of the template; the line itself where nothing is filled in.
std::string filled(std::string_view line, const BatchRequest& request) {
  const bool on_cpu = is_on_cpu(request.command);
  if (line.starts_with("#SBATCH --nodes="))
    return fmt::format("#SBATCH --nodes={}\n", request.num_nodes);
  if (line.starts_with("#SBATCH --ntasks-per-node="))
    return fmt::format("#SBATCH --ntasks-per-node={}\n", request.ranks_per_node);
  if (line.starts_with("#SBATCH --gpus-per-node="))
    return on_cpu ? "" : fmt::format("#SBATCH --gpus-per-node={}\n", request.ranks_per_node);
  if (line.starts_with("# Of the node, not of the task") && on_cpu) return "";
  if (line.starts_with("CONFIG=") || line.starts_with("RUN_DIR=")) return "";
  if (line.starts_with("WMTP="))
    return fmt::format("WMTP=${{WMTP:-{}}}\n", shell_word(request.program));
  if (line.starts_with("TRAIN=(")) return train_line(request) + exports_of(request);
  return std::string(line) + "\n";
}

}  // namespace

std::string batch_script(const BatchRequest& request) {
  if (request.command.empty() || request.command.front() != "train")
    throw Error(ErrorKind::config, "launch", "--slurm writes scripts for `train` alone",
                "for example: wmtp launch --slurm job.sbatch --nproc 8 -- train --config run.yaml");
  std::string script = "#!/bin/bash\n" + head_of(request);
  std::string_view rest = template_of(request);
  rest.remove_prefix(rest.find("\n#SBATCH") + 1);  // its own head says how to use the template
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    script += filled(line, request);
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  return script;
}

void write_batch_script(const std::filesystem::path& path, const std::string& script) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755));
  if (!file && errno == EEXIST)
    throw Error(ErrorKind::config, "launch", fmt::format("--slurm {}: it exists", path.string()),
                "remove it, or name another file");
  const auto length = static_cast<ssize_t>(script.size());
  if (!file || ::write(file.get(), script.data(), script.size()) != length)
    throw Error(ErrorKind::io, "launch",
                fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)),
                "name a file in a folder that can be written");
}

}  // namespace wmtp::cli
