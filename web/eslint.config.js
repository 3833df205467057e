import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["node_modules/", "build.mjs", "eslint.config.js"] },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { project: "./tsconfig.json", tsconfigRootDir: import.meta.dirname } },
    rules: {
      // Numbers in templates print as they are; the formats of amounts are in format.ts.
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: "Text is never put in as HTML." },
        { property: "outerHTML", message: "Text is never put in as HTML." },
        { property: "insertAdjacentHTML", message: "Text is never put in as HTML." },
      ],
      "no-restricted-syntax": [
        "error",
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: "Text is never put in as HTML." },
      ],
      eqeqeq: "error",
    },
  },
);
