"""The accuracy of ratios: programs that the mix of ``corewise calibrate`` lacks, beside the mix."""
