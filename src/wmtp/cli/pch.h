// The precompiled header of the commands: LibTorch's, and CLI11 and JSON, which all of them use.
#pragma once
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include "wmtp/pch.h"
