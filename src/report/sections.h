// The parts of the report, each an HTML fragment; empty when the runs have nothing for it.
#pragma once

#include <string>
#include <vector>

#include "report/run.h"
#include "report/summary.h"

namespace taper {

std::string summary_section(const Summary& summary);
std::string table_section(const std::vector<Run>& runs);
std::string loss_section(const std::vector<Run>& runs);
std::string gap_section(
    const std::vector<Run>& runs);  // needs two runs; the first is the reference
std::string stream_section(const std::vector<Run>& runs);
std::string calibration_section(const std::vector<Run>& runs);
std::string optimisation_section(const std::vector<Run>& runs);
std::string config_section(const std::vector<Run>& runs);

}  // namespace taper
