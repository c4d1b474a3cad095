#!/bin/bash
# CSE helpers
