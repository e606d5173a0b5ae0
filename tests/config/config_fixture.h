// A folder with configuration files, and the exact problems they give.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "support/temp_dir.h"
#include "wmtp/config/load.h"
#include "wmtp/config/yaml/problems.h"

namespace wmtp::config {

// Time this process used: what a limit means on a busy machine.
inline double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

class ConfigTest : public ::testing::Test {
 protected:
  // The least that validates; `more` is appended.
  static std::string minimal(const std::string& more = "") {
    return "experiment: {name: run, stage: baseline}\n"
           "models: {policy: {path: micro}}\n"
           "dataset: {train: data.jsonl}\n"
           "training: {learning_rate: 1e-5}\n" +
           more;
  }

  LoadRequest request(const std::string& text) {
    test::write_file(dir_ / "stage.yaml", text);
    LoadRequest request;
    request.file = dir_ / "stage.yaml";
    request.check_paths = false;
    request.env = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = env_.find(name);
      return found == env_.end() ? std::nullopt : std::optional(found->second);
    };
    return request;
  }

  ResolvedConfig load(const std::string& text, std::vector<std::string> overrides = {}) {
    LoadRequest wanted = request(text);
    wanted.overrides = std::move(overrides);
    return load_config(wanted);
  }

  // "where: text" of every problem, the folder cut off; empty if the request loads.
  std::vector<std::string> problems_of(const LoadRequest& request) {
    try {
      load_config(request);
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.kind(), ErrorKind::config);
      std::vector<std::string> lines;
      for (const Problem& problem : error.problems()) {
        std::string line = problem.where + ": " + problem.text;
        const std::string folder = dir_.path().string() + "/";
        for (auto at = line.find(folder); at != line.npos; at = line.find(folder))
          line.erase(at, folder.size());
        lines.push_back(std::move(line));
      }
      return lines;
    }
    return {};
  }

  std::vector<std::string> problems(const std::string& text,
                                    std::vector<std::string> overrides = {},
                                    bool all_keys = false) {
    LoadRequest wanted = request(text);
    wanted.overrides = std::move(overrides);
    wanted.check_available = !all_keys;
    return problems_of(wanted);
  }

  test::TempDir dir_;
  std::map<std::string, std::string> env_{{"HOME", "/u/someone"}};
};

}  // namespace wmtp::config
